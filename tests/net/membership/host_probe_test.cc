// What is taken for an answer of a host, and what for none.
#include "asup/net/membership/host_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "asup/net/membership/address.h"

namespace asup::net {
namespace {

// Calls look() as often as a second is over, for so many seconds of a clock of its own.
void look_for(HostProbe& probe, int seconds) {
  static Clock::time_point now = Clock::now();
  for (int second = 0; second < seconds; ++second) {
    now += std::chrono::seconds(1);
    probe.look(now);
  }
}

// Without any of the numbers that files and sockets have.
class NoSockets {
 public:
  NoSockets() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoSockets() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(HostProbe, AHostThatListensOrRefusesIsThere) {
  const Fd listener = listen_on(interface_address("127.0.0.1"), "");
  const SocketAddress listening = bound_address(listener.get());
  for (const SocketAddress& address : {listening, listening.with_port(1)}) {
    HostProbe probe(address);
    look_for(probe, 20);
    EXPECT_EQ(probe.unanswered(), 0) << address.to_string();
    EXPECT_FALSE(probe.unreachable());
  }
}

// A queue that is full answers nothing.
TEST(HostProbe, SilenceIsCounted) {
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = interface_address("127.0.0.1");
  ASSERT_EQ(bind(listener.get(), any.get(), any.length()), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const SocketAddress address = bound_address(listener.get());
  std::vector<Fd> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(waiting.back().get(), address.get(), address.length());
  }
  HostProbe probe(address);
  look_for(probe, 9);
  EXPECT_TRUE(probe.unreachable()) << probe.unanswered();
}

TEST(HostProbe, ThatWeHaveNoSocketLeftSaysNothingOfTheHost) {
  const Fd listener = listen_on(interface_address("127.0.0.1"), "");
  HostProbe probe(bound_address(listener.get()));
  {
    const NoSockets none;
    look_for(probe, 20);
  }
  EXPECT_EQ(probe.unanswered(), 0);
}

}  // namespace
}  // namespace asup::net
