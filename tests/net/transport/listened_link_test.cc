// Links of two members between whom somebody listens, or does worse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "asup/base/error.h"
#include "asup/net/transport/link_setup.h"
#include "asup/net/transport/mesh.h"
#include "tests/net/tls/proxy.h"
#include "tests/support/thrown.h"

namespace asup::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const InVain kNever = [](const std::vector<int>&, bool) { return false; };
constexpr std::uint64_t kCommunicator = 7;
constexpr Seconds kLimit{60};
// What passes before TLS: hello and proof, then generation and rank.
constexpr std::size_t kHandshake = 40 + 32, kLinkHello = 16;

// A gradient, as text that fits in a note.
std::string gradient() {
  std::vector<float> values(15'000);
  std::iota(values.begin(), values.end(), 0.25f);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

struct Reader : Mesh::Mover {
  bool progress() override { return false; }
  bool busy() override { return false; }
  void on_note(int, std::uint32_t, std::string_view said) override { text = said; }
  void failed(const std::string& why) override { ADD_FAILURE() << why; }
  std::string text;
};

struct Where {
  TlsMode tls;
  bool two_hosts;
};

// Rank 1 reaches rank 0 through a proxy.
class ListenedLink : public ::testing::Test {
 protected:
  void set_up(const Where& where, int ranks = 2) {
    tls_ = where.tls;
    JoinOptions options;
    options.links = LinkKind::tcp;
    options.interface = "127.0.0.1";
    for (int rank = 0; rank < ranks; ++rank) {
      listeners_.push_back(std::make_unique<Listeners>(options));
      Member member;
      member.rank = rank;
      member.hostname = "here";
      member.host = this_host();
      if (rank > 0 && where.two_hosts) member.host.namespace_ = "another";
      member.tcp_address = listeners_.back()->tcp_address();
      roster_.members.push_back(std::move(member));
    }
    roster_.generation = 3;
    proxy_ = std::make_unique<Proxy>(roster_.members[0].tcp_address);
    roster_.members[0].tcp_address = proxy_->address();
  }

  std::future<std::unique_ptr<Mesh>> join(int rank, Seconds limit = kLimit) {
    return std::async(std::launch::async, [this, rank, limit] {
      auto wires = connect_all(roster_, rank, key_, LinkKind::tcp, tls_,
                               *listeners_[static_cast<std::size_t>(rank)], after(limit), kNever);
      return std::make_unique<Mesh>(roster_, rank, std::move(wires));
    });
  }

  void link_up() {
    auto zero = join(0), one = join(1);
    mesh_[0] = zero.get();
    mesh_[1] = one.get();
  }

  void send_gradient() {
    const MeshLock lock(mesh_[1]->loop());
    mesh_[1]->send_note(0, kCommunicator, 1, gradient());
  }

  // How rank's link to the other has ended.
  std::string end_seen_by(int rank) {
    Mesh& mesh = *mesh_[rank];
    const MeshLock lock(mesh.loop());
    const auto ended = [&] { return mesh.end_of(1 - rank) != LinkEnd::open; };
    return mesh.loop().drive(ended, after(kLimit)) ? mesh.describe_end(1 - rank) : "is open";
  }

  TlsMode tls_{};
  const Key key_ = random_key();
  Roster roster_;
  std::vector<std::unique_ptr<Listeners>> listeners_;
  std::unique_ptr<Proxy> proxy_;
  std::unique_ptr<Mesh> mesh_[2];
};

TEST_F(ListenedLink, WhatIsEncryptedCannotBeReadAndWhatIsNotCan) {
  const auto bytes = gradient();
  const auto part = std::as_bytes(std::span(bytes)).subspan(20'000, 32);
  struct {
    Where where;
    bool encrypted;
  } const cases[] = {{{TlsMode::automatic, true}, true},
                     {{TlsMode::automatic, false}, false},
                     {{TlsMode::on, false}, true},
                     {{TlsMode::off, true}, false}};
  for (const auto& [where, encrypted] : cases) {
    SCOPED_TRACE(fmt::format("--tls {}, {}", to_text(where.tls), where.two_hosts));
    roster_ = {};
    listeners_.clear();
    set_up(where);
    link_up();
    Reader reader;
    {
      const MeshLock lock(mesh_[0]->loop());
      mesh_[0]->add(kCommunicator, reader);
    }
    send_gradient();
    {
      const MeshLock lock(mesh_[0]->loop());
      EXPECT_TRUE(mesh_[0]->loop().drive([&] { return reader.text == bytes; }, after(kLimit)));
      mesh_[0]->remove(kCommunicator);
    }
    EXPECT_GT(proxy_->seen(), bytes.size());
    EXPECT_NE(proxy_->has_seen(part), encrypted);
    auto closing = std::async(std::launch::async, [&] { mesh_[1].reset(); });
    mesh_[0].reset();
  }
}

TEST_F(ListenedLink, AChangedBitLosesThePeerByName) {
  set_up({TlsMode::automatic, true});
  link_up();
  proxy_->change([](std::size_t, Proxy::Piece& bytes) { bytes[bytes.size() / 2] ^= std::byte{4}; });
  send_gradient();
  EXPECT_THAT(end_seen_by(0), HasSubstr("was lost: what came from it was changed on the way"));
  EXPECT_THAT(end_seen_by(1), HasSubstr("what reached it from here was changed on the way"));
}

TEST_F(ListenedLink, WhoMakesItAnotherRanksLinkIsFoundOut) {
  set_up({TlsMode::automatic, true}, 3);
  proxy_->change([](std::size_t at, Proxy::Piece& bytes) {
    constexpr std::size_t kRank = kHandshake + 8;
    if (at <= kRank && kRank < at + bytes.size()) bytes[kRank - at] = std::byte{2};
  });
  auto zero = join(0, Seconds(2)), one = join(1, Seconds(2));
  const auto why = [](auto& joining) -> std::string {
    try {
      joining.get();
    } catch (const PeerLost& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(why(one), AllOf(HasSubstr("cannot connect to rank 0"), HasSubstr("TLS handshake")));
  EXPECT_THAT(why(zero), HasSubstr("no connection from ranks 1 and 2"));
}

// Rank 0 encrypts for those who wish it. But rank 1 knows of two hosts, and does not go on with one
// that does not, to the proofs, which are of the flag too.
TEST_F(ListenedLink, WhoTakesTheWishForEncryptionAwayIsFoundOut) {
  set_up({TlsMode::automatic, true});
  proxy_->change([](std::size_t at, Proxy::Piece& bytes) {
    if (at == 0 && bytes.size() > 6) bytes[6] = std::byte{0};
  });
  auto zero = join(0, Seconds(2)), one = join(1, Seconds(2));
  EXPECT_THAT(asup::testing::message_of<JobFailed>([&] { one.get(); }),
              HasSubstr("it does not encrypt, and this process is told to"));
  EXPECT_THROW(zero.get(), PeerLost);
}

}  // namespace
}  // namespace asup::net
