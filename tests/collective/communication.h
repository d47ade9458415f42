// A test of the communicator over every kind of link, for several numbers of ranks, on memory that
// others reach and on memory that they do not.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/collective/numbers.h"
#include "tests/collective/reference.h"
#include "tests/support/ranks.h"

namespace asup::collective::testing {

struct Connection {
  net::LinkKind links;
  int ranks;
  bool shared;
};

class CommunicationTest : public ::testing::TestWithParam<Connection> {
 protected:
  int ranks() const { return GetParam().ranks; }

  // Calls `body` once a rank, each a thread with a joined job.
  void run_ranks(const std::function<void(Job&)>& body) const {
    asup::testing::run_ranks(ranks(), GetParam().links, body);
  }

  // A buffer of `count` in shared or private memory, as the case says.
  template <typename T>
  Numbers<T> numbers(Communicator& communicator, std::size_t count) const {
    return {communicator, count, GetParam().shared};
  }

  // What rank r holds at i: small integers, so that sums are exact whatever their order.
  static double element(int rank, std::size_t i) {
    return static_cast<double>((static_cast<std::size_t>(rank) * 7 + i * 3) % 11) + 1;
  }
  static double reduced(ReduceOp op, int ranks, std::size_t i) {
    return testing::reduced(op, ranks, [&](int rank) { return element(rank, i); });
  }
};

inline std::vector<Connection> every_connection() {
  std::vector<Connection> connections;
  for (const auto links : {net::LinkKind::inproc, net::LinkKind::shm, net::LinkKind::tcp})
    for (const int ranks : {1, 2, 4, 7})
      for (const bool shared : {false, true})
        if (!shared || links != net::LinkKind::tcp) connections.push_back({links, ranks, shared});
  return connections;
}

inline std::string name_of_connection(const ::testing::TestParamInfo<Connection>& info) {
  return asup::testing::name_of(info.param.links) + "_" + std::to_string(info.param.ranks) +
         (info.param.shared ? "_shared" : "_private");
}

}  // namespace asup::collective::testing
