#include "asup/net/membership/handshake.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>

#include "asup/base/error.h"
#include "asup/net/membership/address.h"

namespace asup::net {
namespace {

using Kind = HandshakeResult::Kind;

struct Pair {
  Fd a, b;
};

Pair unix_pair() {
  int fds[2];
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
  return {Fd(fds[0]), Fd(fds[1])};
}

Pair tcp_pair() {
  const Fd listener = listen_on(interface_address("127.0.0.1"), "");
  const SocketAddress address = bound_address(listener.get());
  Fd a(socket(AF_INET, SOCK_STREAM, 0));
  check(connect(a.get(), address.get(), address.length()) == 0, "connect");
  return {std::move(a), Fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK))};
}

HandshakeResult run(int fd, const Key& key, Side side, const char* context = "test",
                    Seconds timeout = Seconds(60)) {
  return handshake(fd, key, side, context, after(timeout));
}

struct Both {
  HandshakeResult connector, acceptor;
};

Both meet(Pair pair, const Key& connector_key, const Key& acceptor_key,
          const char* connector_context = "test", const char* acceptor_context = "test") {
  auto acceptor = std::async(std::launch::async, [&] {
    const HandshakeResult result =
        run(pair.b.get(), acceptor_key, Side::acceptor, acceptor_context);
    if (!result.ok()) pair.b.reset();
    return result;
  });
  Both both;
  both.connector = run(pair.a.get(), connector_key, Side::connector, connector_context);
  both.acceptor = acceptor.get();
  return both;
}

TEST(Handshake, SameKeyOnEveryKindOfSocket) {
  const Key key = random_key();
  const Both over_unix = meet(unix_pair(), key, key);
  EXPECT_TRUE(over_unix.connector.ok()) << over_unix.connector.reason;
  EXPECT_TRUE(over_unix.acceptor.ok()) << over_unix.acceptor.reason;
  const Both over_tcp = meet(tcp_pair(), key, key);  // one end blocks, the other does not
  EXPECT_TRUE(over_tcp.connector.ok()) << over_tcp.connector.reason;
  EXPECT_TRUE(over_tcp.acceptor.ok()) << over_tcp.acceptor.reason;
}

TEST(Handshake, LeavesTheBytesBehindItAlone) {
  const Key key = random_key();
  Pair pair = unix_pair();
  auto acceptor =
      std::async(std::launch::async, [&] { return run(pair.b.get(), key, Side::acceptor); });
  ASSERT_TRUE(run(pair.a.get(), key, Side::connector).ok());
  ASSERT_EQ(send(pair.a.get(), "next", 4, 0), 4);
  ASSERT_TRUE(acceptor.get().ok());
  char buffer[16];
  EXPECT_EQ(std::string(buffer, static_cast<std::size_t>(recv(pair.b.get(), buffer, 16, 0))),
            "next");
}

TEST(Handshake, WrongKeyIsRefusedByBoth) {
  const Both both = meet(tcp_pair(), random_key(), random_key());
  EXPECT_EQ(both.connector.kind, Kind::wrong_key);
  EXPECT_EQ(both.connector.reason, "it refused this job's key");
  EXPECT_EQ(both.acceptor.kind, Kind::wrong_key);
  EXPECT_EQ(both.acceptor.reason, "it does not hold this job's key");
}

TEST(Handshake, AProofForOnePurposeIsNoneForAnother) {
  const Key key = random_key();
  EXPECT_EQ(meet(unix_pair(), key, key, "link 1", "link 2").acceptor.kind, Kind::wrong_key);
  // Contexts cannot be shifted into the bytes around them.
  EXPECT_EQ(meet(unix_pair(), key, key, "ab", "abc").acceptor.kind, Kind::wrong_key);
}

TEST(Handshake, GarbageIsToldAtItsFirstByteAndGetsNoAnswer) {
  Pair pair = unix_pair();
  ASSERT_EQ(send(pair.a.get(), "GET / HTTP/1.1\r\n", 16, 0), 16);
  const auto start = Clock::now();
  const HandshakeResult result = run(pair.b.get(), random_key(), Side::acceptor);
  EXPECT_EQ(result.kind, Kind::garbage);
  EXPECT_LT(seconds_since(start), 20.0);
  pair.b.reset();
  char byte;
  EXPECT_LE(recv(pair.a.get(), &byte, 1, 0), 0) << "a stranger was told something";
}

TEST(Handshake, AnotherVersionIsNamed) {
  Pair pair = unix_pair();
  const std::string hello = std::string("asupC\x01\0\0", 8) + std::string(32, 'n');
  ASSERT_EQ(send(pair.a.get(), hello.data(), hello.size(), 0), 40);
  const HandshakeResult result = run(pair.b.get(), random_key(), Side::acceptor);
  EXPECT_EQ(result.kind, Kind::version);
  EXPECT_EQ(result.reason, "it speaks version 1 of the handshake, this is 2");
}

TEST(Handshake, SilenceEndsAtTheDeadline) {
  Pair pair = tcp_pair();
  for (const Side side : {Side::acceptor, Side::connector}) {
    const auto start = Clock::now();
    EXPECT_EQ(run(pair.b.get(), random_key(), side, "test", Seconds(0.1)).kind, Kind::silent);
    EXPECT_GE(seconds_since(start), 0.1);
    EXPECT_LT(seconds_since(start), 20.0);
  }
}

TEST(Handshake, DrippingBytesDoNotStretchTheDeadline) {
  Pair pair = unix_pair();
  std::atomic<bool> stop = false;
  auto dripper = std::async(std::launch::async, [&] {
    const std::string hello = std::string("asupC\x02\0\0", 8) + std::string(32, 'n');
    for (std::size_t i = 0; i < hello.size() && !stop; ++i) {
      send(pair.a.get(), &hello[i], 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // 8 s in all
    }
  });
  const auto start = Clock::now();
  EXPECT_EQ(run(pair.b.get(), random_key(), Side::acceptor, "test", Seconds(0.3)).kind,
            Kind::silent);
  EXPECT_LT(seconds_since(start), 6.0);
  stop = true;
}

TEST(Handshake, AClosedConnectionIsNamed) {
  Pair pair = tcp_pair();
  pair.a.reset();
  EXPECT_EQ(run(pair.b.get(), random_key(), Side::acceptor).kind, Kind::closed);
}

// An attacker without the key that sends every message back where it came from.
TEST(Handshake, ReflectionProvesNothing) {
  Pair pair = unix_pair();
  auto mirror = std::async(std::launch::async, [&] {
    char buffer[128];
    for (ssize_t n; (n = recv(pair.a.get(), buffer, sizeof buffer, 0)) > 0;)
      if (send(pair.a.get(), buffer, static_cast<std::size_t>(n), MSG_NOSIGNAL) < 0) break;
  });
  const HandshakeResult result = run(pair.b.get(), random_key(), Side::connector);
  EXPECT_EQ(result.kind, Kind::garbage);
  pair.b.reset();
}

// A smarter one, which dresses the connector's own messages as the acceptor's.
TEST(Handshake, AReflectedProofInTheRightEnvelopeProvesNothing) {
  Handshake victim(Side::connector, random_key(), "test");
  std::vector<std::byte> hello = victim.take_output();
  hello[4] = std::byte{'A'};  // its own nonce as the challenge
  victim.feed(hello);
  std::vector<std::byte> answer = hello;
  answer[4] = std::byte{'Y'};
  const std::vector<std::byte> proof = victim.take_output();
  ASSERT_EQ(proof.size(), 32u);
  std::copy(proof.begin(), proof.end(), answer.begin() + 8);
  victim.feed(answer);
  ASSERT_TRUE(victim.finished());
  EXPECT_EQ(victim.result().kind, Kind::wrong_key);
}

TEST(Handshake, AProofHeardOnceDoesNotOpenTheDoorAgain) {
  const Key key = random_key();
  Handshake connector(Side::connector, key, "test"), first(Side::acceptor, key, "test");
  const auto hello = connector.take_output();
  first.feed(hello);
  connector.feed(first.take_output());
  const auto proof = connector.take_output();
  first.feed(proof);
  ASSERT_TRUE(first.result().ok() && first.finished());

  Handshake second(Side::acceptor, key, "test");
  second.feed(hello);
  second.feed(proof);
  EXPECT_EQ(second.result().kind, Kind::wrong_key);
}

// Both ends as state machines, and what they come to.
struct Agreed {
  HandshakeResult connector, acceptor;
};

Agreed agree(TlsPolicy connector_tls, TlsPolicy acceptor_tls, std::size_t flip_in_hello = 0,
             std::size_t flip_in_challenge = 0) {
  const Key key = random_key();
  Handshake connector(Side::connector, key, "test", connector_tls);
  Handshake acceptor(Side::acceptor, key, "test", acceptor_tls);
  const auto passed_on = [](std::vector<std::byte> message, std::size_t flip) {
    if (flip > 0) message[flip] ^= std::byte{1};
    return message;
  };
  acceptor.feed(passed_on(connector.take_output(), flip_in_hello));
  connector.feed(passed_on(acceptor.take_output(), flip_in_challenge));
  if (!connector.finished()) {
    acceptor.feed(connector.take_output());
    connector.feed(acceptor.take_output());
  }
  return {connector.result(), acceptor.result()};
}

TEST(Handshake, BothAgreeOnWhetherToEncrypt) {
  constexpr TlsPolicy kOn{TlsMode::on, false}, kOff{TlsMode::off, true},
      kHere{TlsMode::automatic, false}, kLeaves{TlsMode::automatic, true};
  struct {
    TlsPolicy connector, acceptor;
    bool encrypted;
  } const cases[] = {{kOn, kOn, true},       {kOff, kOff, false},    {kHere, kHere, false},
                     {kHere, kLeaves, true}, {kLeaves, kHere, true}, {kLeaves, kLeaves, true},
                     {kHere, kOn, true},     {kLeaves, kOff, false}, {kOn, kHere, true},
                     {kOff, kHere, false}};
  for (const auto& one : cases) {
    const Agreed agreed = agree(one.connector, one.acceptor);
    ASSERT_TRUE(agreed.connector.ok() && agreed.acceptor.ok()) << agreed.connector.reason;
    EXPECT_EQ(agreed.connector.secret.has_value(), one.encrypted);
    EXPECT_EQ(agreed.connector.secret, agreed.acceptor.secret);
  }
  EXPECT_NE(agree(kOn, kOn).connector.secret, agree(kOn, kOn).connector.secret);
  for (const auto& [connector, acceptor] : {std::pair{kOn, kOff}, {kOff, kOn}, {kOff, kLeaves}})
    EXPECT_EQ(agree(connector, acceptor).connector.kind, Kind::tls);
}

TEST(Handshake, NobodyBetweenThemTalksThemOutOfIt) {
  constexpr std::size_t kFlag = 6;
  constexpr TlsPolicy kLeaves{TlsMode::automatic, true};
  EXPECT_EQ(agree(kLeaves, kLeaves, kFlag, 0).acceptor.kind, Kind::wrong_key);
  EXPECT_EQ(agree(kLeaves, kLeaves, 0, kFlag).acceptor.kind, Kind::wrong_key);
  EXPECT_EQ(agree(kLeaves, kLeaves, kFlag, kFlag).acceptor.kind, Kind::wrong_key);
}

TEST(Handshake, EveryFlippedBitOfTheProofIsSeen) {
  const Key key = random_key();
  for (std::size_t bit = 0; bit < 256; ++bit) {
    Handshake connector(Side::connector, key, "test"), acceptor(Side::acceptor, key, "test");
    acceptor.feed(connector.take_output());
    connector.feed(acceptor.take_output());
    auto proof = connector.take_output();
    proof[bit / 8] ^= std::byte{1} << bit % 8;
    acceptor.feed(proof);
    ASSERT_EQ(acceptor.result().kind, Kind::wrong_key) << bit;
  }
}

}  // namespace
}  // namespace asup::net
