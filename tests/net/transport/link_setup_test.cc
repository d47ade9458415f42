// Links come to be, whoever else knocks.
#include "asup/net/transport/link_setup.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <future>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/fd.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/handshake.h"

namespace asup::net {
namespace {

const InVain kNever = [](const std::vector<int>&, bool) { return false; };

// A job of two ranks on this host, of which a test plays rank 1, or lets it come.
class LinkSetup : public testing::TestWithParam<LinkKind> {
 protected:
  LinkSetup() {
    JoinOptions options;
    options.links = GetParam();
    options.interface = "127.0.0.1";
    for (int rank = 0; rank < 2; ++rank) {
      listeners_.push_back(std::make_unique<Listeners>(options));
      Member member;
      member.rank = rank;
      member.host = this_host();
      member.tcp_address = listeners_.back()->tcp_address();
      member.unix_address = listeners_.back()->unix_address();
      roster_.members.push_back(std::move(member));
    }
    roster_.generation = 3;
  }

  std::future<bool> link(int rank, Seconds limit = Seconds(60)) {
    return std::async(std::launch::async, [this, rank, limit] {
      const auto wires =
          connect_all(roster_, rank, key_, GetParam(), TlsMode::automatic,
                      *listeners_[static_cast<std::size_t>(rank)], after(limit), kNever);
      return wires[static_cast<std::size_t>(1 - rank)] != nullptr;
    });
  }

  // A connection to rank 0's listener for links of this kind.
  Fd stranger() const {
    if (GetParam() == LinkKind::tcp) {
      const SocketAddress address =
          resolve(parse_endpoint(listeners_[0]->tcp_address(), "")).front();
      Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(connect(fd.get(), address.get(), address.length()), 0);
      return fd;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string& name = listeners_[0]->unix_address();
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    return fd;
  }

  const Key key_ = random_key();
  Roster roster_;
  std::vector<std::unique_ptr<Listeners>> listeners_;
};

TEST_P(LinkSetup, IdleStrangersKeepNobodyOut) {
  auto first = link(0);
  std::vector<Fd> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stranger());
  auto second = link(1);
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(first.get());
}

TEST_P(LinkSetup, StrangersThatKeepComingKeepNobodyOut) {
  auto first = link(0);
  std::atomic<bool> linked{false};
  std::vector<Fd> strangers(200);
  std::thread scanner([&] {
    for (std::size_t i = 0; !linked; ++i) {
      strangers[i % strangers.size()] = stranger();
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  auto second = link(1);
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(first.get());
  linked = true;
  scanner.join();
}

TEST_P(LinkSetup, AMemberMayComeBeforeItsPeerListensToIt) {
  auto second = link(1);
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  auto first = link(0);
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(first.get());
}

TEST_P(LinkSetup, WhoHoldsTheKeyAndTakesAnothersPlaceIsTurnedAway) {
  auto first = link(0);
  struct {
    std::uint64_t generation;
    std::int32_t rank, reserved;
  } const hellos[] = {{3, 0, 0}, {3, -1, 0}, {3, 2, 0}, {2, 1, 0}};
  for (const auto& hello : hellos) {
    const Fd liar = stranger();
    ASSERT_TRUE(handshake(liar.get(), key_, Side::connector, "asup link").ok());
    ASSERT_EQ(send(liar.get(), &hello, sizeof hello, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof hello));
    std::byte byte;
    EXPECT_EQ(recv(liar.get(), &byte, 1, 0), 0) << hello.rank << " of " << hello.generation;
  }
  auto second = link(1);
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(first.get());
}

TEST_P(LinkSetup, WhoIsNotThereIsLostAtTheDeadline) {
  listeners_[0].reset();
  const auto connects = [&] { return link(1, Seconds(0.3)).get(); };
  EXPECT_THROW(connects(), PeerLost);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinkSetup, testing::Values(LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) {
                           return info.param == LinkKind::tcp ? "tcp" : "shm";
                         });

}  // namespace
}  // namespace asup::net
