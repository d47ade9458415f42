// Members and the coordinator under --tls: who has the word, and what those hear who listen.
#include "asup/base/error.h"
#include "coordinator_suite.h"
#include "tests/net/tls/proxy.h"

namespace asup::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TlsModes : public CoordinatorTest {
 protected:
  CoordinatorOptions with(TlsMode tls, int size) {
    CoordinatorOptions options = this->options(size);
    options.tls = tls;
    return options;
  }
  std::future<Membership> join_with(TlsMode tls, const std::string& address, int rank = 0,
                                    int size = 1) {
    JoinOptions options = join_options(rank, size, address);
    options.tls = tls;
    return join(options);
  }
};

TEST_F(TlsModes, WhatMembersSayIsOnTheWireOnlyWhereNothingIsEncrypted) {
  const std::string_view said = "\"hostname\"";
  for (const TlsMode tls : {TlsMode::on, TlsMode::off, TlsMode::automatic}) {
    Coordinator coordinator(with(tls, 2));
    Proxy proxy(coordinator.address());
    auto members = join_all(2, proxy.address());
    EXPECT_EQ(members[0].tls(), tls);
    EXPECT_EQ(proxy.has_seen(std::as_bytes(std::span(said))), tls != TlsMode::on) << to_text(tls);
    for (Membership& member : members) member.leave();
  }
}

TEST_F(TlsModes, WhoIsToldOtherwiseThanTheCoordinatorSaysSo) {
  Coordinator encrypts(with(TlsMode::on, 1)), does_not(with(TlsMode::off, 1));
  EXPECT_THAT(thrown<BadInput>(join_with(TlsMode::off, encrypts.address())),
              AllOf(HasSubstr("differ in --tls: it encrypts, and this process is told not to"),
                    HasSubstr("ASUP_TLS")));
  EXPECT_THAT(thrown<BadInput>(join_with(TlsMode::on, does_not.address())),
              AllOf(HasSubstr("differ in --tls: it does not encrypt, and this process is told to"),
                    HasSubstr("ASUP_TLS")));
}

TEST_F(TlsModes, WhoIsToldOtherwiseThanTheJobSaysSo) {
  Coordinator coordinator(with(TlsMode::automatic, 1));
  EXPECT_THAT(thrown<BadInput>(join_with(TlsMode::on, coordinator.address())),
              HasSubstr("this process was told --tls on, but the job is under --tls auto"));
}

TEST_F(TlsModes, AnotherKeyIsRefusedBeforeAnyTls) {
  Coordinator coordinator(with(TlsMode::on, 1));
  JoinOptions options = join_options(0, 1, coordinator.address());
  options.key = random_key();
  EXPECT_THAT(thrown<BadInput>(join(options)), HasSubstr("does not share this process's key"));
}

// A member's heartbeats go on by themselves.
TEST_F(TlsModes, AChangedBitLosesTheMember) {
  Coordinator coordinator(with(TlsMode::on, 2));
  Proxy proxy(coordinator.address());
  auto one = join_with(TlsMode::automatic, proxy.address(), 1, 2);
  Membership zero = join_with(TlsMode::automatic, coordinator.address(), 0, 2).get();
  Membership other = one.get();
  proxy.change([](std::size_t, Proxy::Piece& bytes) { bytes.back() ^= std::byte{1}; });
  EXPECT_EQ(lost_.wait(1), std::vector{other.self().describe()});
}

TEST_F(TlsModes, WhoWasKilledHasEndedForSure) {
  JoinOptions others = join_options(1, 2, "");
  others.tls = TlsMode::on;
  MemberProcess victim(others);
  Coordinator coordinator(with(TlsMode::on, 2));
  victim.start(coordinator.address());
  Membership survivor = join_with(TlsMode::on, coordinator.address(), 0, 2).get();
  Heard heard;
  survivor.watch(
      {[&](const Member& member, const std::string&) { heard.add(member.describe()); }, {}});
  victim.signal(SIGKILL);
  ASSERT_EQ(heard.wait(1).size(), 1u);
  EXPECT_EQ(survivor.gone().at(0).how, Gone::How::ended);
  survivor.leave();
}

}  // namespace
}  // namespace asup::net
