// The conformance suite of links: every kind of wire passes it. A kind joins by a Kind and
//   INSTANTIATE_TEST_SUITE_P(Kinds, LinkSuite, ::testing::Values(kind), name_of_kind);
// and, where its wires see a peer's death, the same with LinkToProcess.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/transport/link.h"

namespace asup::net {

using WirePair = std::pair<std::unique_ptr<Wire>, std::unique_ptr<Wire>>;

struct Kind {
  std::string name;
  std::function<WirePair()> make;
  // Two connected sockets and how each end becomes a wire; null where the ends cannot be processes
  // that the test forks.
  std::pair<int, int> (*sockets)() = nullptr;
  std::unique_ptr<Wire> (*connect)(int) = nullptr;
  std::unique_ptr<Wire> (*accept)(int) = nullptr;
};

inline std::string name_of_kind(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed);

class LinkSuite : public ::testing::TestWithParam<Kind> {
 protected:
  const Kind& kind() const { return GetParam(); }
  void connect();
  // Moves both ends until `done`; false when that takes too long.
  bool move_until(const std::function<bool()>& done, Seconds limit = Seconds(120));

  std::unique_ptr<Link> a, b;
};

// A child process holds the far end.
class LinkToProcess : public LinkSuite {
 protected:
  void start_child();
  void TearDown() override;
  pid_t child = 0;
};

}  // namespace asup::net
