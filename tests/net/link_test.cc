// Links between threads, over shared memory and over TCP.
#include "asup/net/link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "asup/base/clock.h"
#include "asup/net/inproc/wire.h"
#include "asup/net/shm/wire.h"
#include "asup/net/tcp/wire.h"
#include "tests/net/link_suite.h"

namespace asup::net {
namespace {

std::pair<int, int> tcp_sockets() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(one, reinterpret_cast<sockaddr*>(&address), length), 0);
  const int other = accept(listener, nullptr, nullptr);
  close(listener);
  return {one, other};
}

std::pair<int, int> unix_sockets() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {ends[0], ends[1]};
}

InprocHub& hub() {
  static InprocHub hub;
  return hub;
}

Kind inproc() {
  const auto make = [] {
    static std::uint64_t generation = 0;
    const std::uint64_t mine = ++generation;
    WirePair pair;
    std::thread other([&] { pair.second = hub().meet(mine, 1, 0, after(Seconds(5))); });
    pair.first = hub().meet(mine, 0, 1, after(Seconds(5)));
    other.join();
    return pair;
  };
  return {"inproc", make};
}

Kind shm() {
  const auto make = [] {
    const auto [one, other] = unix_sockets();
    auto first = ShmWire::connect(one);
    return WirePair{std::move(first), ShmWire::accept(other)};
  };
  return {"shm", make, unix_sockets,
          [](int fd) -> std::unique_ptr<Wire> { return ShmWire::connect(fd); },
          [](int fd) -> std::unique_ptr<Wire> { return ShmWire::accept(fd); }};
}

Kind tcp() {
  const auto make = [] {
    const auto [one, other] = tcp_sockets();
    return WirePair{std::make_unique<TcpWire>(one), std::make_unique<TcpWire>(other)};
  };
  const auto wire = [](int fd) -> std::unique_ptr<Wire> { return std::make_unique<TcpWire>(fd); };
  return {"tcp", make, tcp_sockets, wire, wire};
}

TEST(TcpLink, TakesGarbageForALostPeer) {
  const auto [ours, theirs] = tcp_sockets();
  Link link(std::make_unique<TcpWire>(ours));
  const auto garbage = random_bytes(4096, 10);
  ASSERT_EQ(send(theirs, garbage.data(), garbage.size(), 0), 4096);
  const Deadline deadline = after(Seconds(5));
  while (link.end() == LinkEnd::open && Clock::now() < deadline) {
    link.wire().on_fd_ready();
    link.progress();
  }
  EXPECT_EQ(link.end(), LinkEnd::lost);
  close(theirs);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkSuite, ::testing::Values(inproc(), shm(), tcp()), name_of_kind);
INSTANTIATE_TEST_SUITE_P(Kinds, LinkToProcess, ::testing::Values(shm(), tcp()), name_of_kind);

}  // namespace
}  // namespace asup::net
