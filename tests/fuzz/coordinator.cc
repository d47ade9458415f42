// A coordinator, and members that hold the key and send it what they like.
#include "asup/net/membership/coordinator.h"

#include <poll.h>

#include <vector>

#include "asup/net/membership/connect.h"
#include "asup/net/membership/control_connection.h"
#include "tests/fuzz/input.h"

namespace asup::net {
namespace {

constexpr int kMembers = 3;

class Caller {
 public:
  explicit Caller(const std::string& address)
      : connection_(connected(address), Key{}, Side::connector, TlsMode::off) {
    move_until([&] { return connection_.authenticated(); });
  }

  void send(ControlFrame::Kind kind, const std::string& body) {
    connection_.send(kind, body);
    move_until([&] { return connection_.all_sent(); });
  }
  // Until it is known what became of the last frame: the coordinator answers every hello at once,
  // and ends in good order.
  void hear_out() {
    move_until([] { return false; });
  }

 private:
  static Fd connected(const std::string& address) {
    std::string why;
    return try_connect(resolve(parse_endpoint(address, "coordinator")).front(), after(Seconds(5)),
                       why);
  }
  template <typename Done>
  void move_until(const Done& done) {
    const Deadline deadline = after(Seconds(5));
    while (connection_.open() && !done() && Clock::now() < deadline) {
      pollfd fd{connection_.fd(), connection_.events(), 0};
      poll(&fd, 1, 100);
      connection_.on_ready();
      while (connection_.receive()) continue;
    }
  }

  ControlConnection connection_;
};

std::string hello_of(int rank) {
  Member member;
  member.rank = rank;
  member.hostname = "alpha";
  member.tcp_address = "127.0.0.1:1";
  if (rank == kMembers - 1) member.server = 0;
  return to_json(Hello{kControlVersion, "0.1.0", kMembers, 1, member});
}

}  // namespace
}  // namespace asup::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::net;
  asup::fuzz::Input input(data, size);
  Coordinator coordinator(
      {.listen = interface_address("127.0.0.1"), .size = kMembers, .servers = 1});
  std::vector<Caller> callers;
  // One more than there are members.
  for (int i = 0; i <= kMembers; ++i) callers.emplace_back(coordinator.address());
  for (int frames = 0; !input.empty() && frames < 64; ++frames) {
    const int what = input.below(kMembers + 4);
    Caller& caller = callers[static_cast<std::size_t>(input.below(kMembers + 1))];
    if (what < kMembers)
      caller.send(ControlFrame::Kind::hello, hello_of(what));
    else
      caller.send(static_cast<ControlFrame::Kind>(input.below(14)), input.text_piece());
  }
  coordinator.stop();
  for (Caller& caller : callers) caller.hear_out();
  return 0;
}
