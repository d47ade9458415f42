// Links between threads, over shared memory and over TCP, plain and encrypted.
#include "asup/net/transport/link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "asup/base/clock.h"
#include "asup/net/transport/inproc/wire.h"
#include "asup/net/transport/shm/wire.h"
#include "asup/net/transport/tcp/wire.h"
#include "tests/net/tls/ends.h"
#include "tests/net/transport/link_suite.h"

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
    std::thread other([&] { pair.second = hub().connect(mine, 1, 0, after(Seconds(5))); });
    pair.first = hub().connect(mine, 0, 1, after(Seconds(5)));
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

template <Side side>
std::unique_ptr<Wire> encrypted(int fd) {
  return std::make_unique<TcpWire>(fd, established_stream(fd, side));
}

Kind tls() {
  const auto make = [] {
    const auto [one, other] = tcp_sockets();
    WirePair pair;
    std::thread acceptor([&pair, fd = other] { pair.second = encrypted<Side::acceptor>(fd); });
    pair.first = encrypted<Side::connector>(one);
    acceptor.join();
    return pair;
  };
  return {"tls", make, tcp_sockets, encrypted<Side::connector>, encrypted<Side::acceptor>};
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

INSTANTIATE_TEST_SUITE_P(Kinds, LinkSuite, ::testing::Values(inproc(), shm(), tcp(), tls()),
                         name_of_kind);
INSTANTIATE_TEST_SUITE_P(Kinds, LinkToProcess, ::testing::Values(shm(), tcp(), tls()),
                         name_of_kind);

// Brings back what was written, however much: a link to itself.
class EndlessWire : public Wire {
 public:
  WireAbilities abilities() const override { return {"endless"}; }
  std::size_t write(std::span<const ConstBytes> pieces) override {
    std::size_t taken = 0;
    for (const ConstBytes piece : pieces) {
      bytes_.insert(bytes_.end(), piece.begin(), piece.end());
      taken += piece.size();
    }
    return taken;
  }
  ConstBytes peek(std::size_t, std::size_t) override { return ConstBytes(bytes_).subspan(read_); }
  void skip(std::size_t bytes) override { read_ += bytes; }
  bool quiet() override { return read_ == bytes_.size(); }
  bool closed() const override { return false; }
  bool arm(bool) override { return quiet(); }
  int fd() const override { return -1; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t read_ = 0;
};

struct CountingReceiver : Receiver {
  bool begin(ConstBytes, std::uint64_t) override { return true; }
  Bytes room() override { return {}; }
  void advance(std::size_t) override {}
  void take(ConstBytes bytes) override { got += bytes.size(); }
  void end() override { ended = true; }
  std::size_t got = 0;
  bool ended = false;
};

// A turn ends after so many bytes; the message must not be left without its end, for which nothing
// more comes.
TEST(Link, AMessageThatFillsATurnEndsThoughNothingFollows) {
  for (const std::size_t size : {256ul << 10, 512ul << 10, (256ul << 10) + kUnit}) {
    Link link(std::make_unique<EndlessWire>());
    const auto payload = random_bytes(size, 1);
    Outgoing message{{}, payload};
    CountingReceiver receiver;
    link.receive(3, receiver);
    link.send(3, message);
    while (link.progress()) continue;
    EXPECT_EQ(receiver.got, size);
    EXPECT_TRUE(receiver.ended) << size;
  }
}

}  // namespace
}  // namespace asup::net
