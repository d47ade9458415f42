#include "asup/base/error.h"
#include "asup/net/membership/key_exchange.h"
#include "coordinator_suite.h"

namespace asup::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Under torchrun, Open MPI and Slurm rank 0 keeps the coordinator.
class HostedTest : public CoordinatorTest {
 protected:
  JoinOptions hosted(int rank, int size) {
    JoinOptions options = join_options(rank, size, "127.0.0.1:0");
    options.host_coordinator = rank == 0;
    options.one_host = true;
    options.key_socket = key_socket_name(fmt::format("test {} {}", getpid(), size));
    if (rank != 0) options.key = {};
    return options;
  }
};

TEST_F(HostedTest, RanksOfOneHostMeetWithoutAKeyFileOrAPort) {
  auto one = join(hosted(1, 3)), two = join(hosted(2, 3)), zero = join(hosted(0, 3));
  Membership a = zero.get(), b = one.get(), c = two.get();
  EXPECT_EQ(a.roster(), b.roster());
  EXPECT_EQ(b.key(), key_);
  EXPECT_EQ(c.key(), key_);

  // Rank 0 leaves first: the others lose the coordinator, but nobody is lost.
  Heard lost, left;
  b.watch({[&](const Member& member, const std::string&) { lost.add(member.describe()); },
           [&](const Member& member) { left.add(member.describe()); }});
  const std::string who = a.self().describe();
  a.leave();
  EXPECT_EQ(left.wait(1), std::vector{who});
  EXPECT_TRUE(lost.wait(1, Seconds(0.2)).empty());
  b.leave();
  c.leave();
}

TEST_F(HostedTest, WhenRankZeroDiesItIsLost) {
  JoinOptions options = hosted(0, 2);
  MemberProcess zero(options);
  zero.start("127.0.0.1:0");
  Membership one = join(hosted(1, 2)).get();
  Heard lost;
  one.watch({[&](const Member& member, const std::string&) { lost.add(member.describe()); }, {}});
  zero.signal(SIGKILL);
  EXPECT_EQ(lost.wait(1),
            std::vector{fmt::format("rank 0 (pid {} on {})", zero.pid(), this_hostname())});
  one.leave();
}

TEST_F(HostedTest, WithoutRankZeroTheOthersSaySo) {
  JoinOptions options = hosted(1, 2);
  options.join_timeout = Seconds(0.2);
  EXPECT_THAT(thrown<JobFailed>(join(options)), HasSubstr("rank 0 did not hand out"));
}

TEST_F(HostedTest, ASecondJobOfTheSameIdIsRefused) {
  const Fd other = open_key_socket(hosted(0, 2).key_socket);
  EXPECT_THAT(thrown<BadInput>(join(hosted(0, 2))), HasSubstr("another job with the same"));
}

TEST_F(HostedTest, APortInUseNamesTheVariables) {
  const Fd taken = listen_on(interface_address("127.0.0.1"), "");
  JoinOptions options = join_options(0, 2, bound_address(taken.get()).to_string());
  options.host_coordinator = true;
  EXPECT_THAT(thrown<BadInput>(join(options)),
              AllOf(HasSubstr("is in use on 127.0.0.1"), HasSubstr("ASUP_COORDINATOR"),
                    HasSubstr("MASTER_PORT")));
}

TEST(JobOfOne, NeedsNobody) {
  Membership alone = Membership::join(JoinOptions{}, {});
  EXPECT_EQ(alone.roster().size(), 1);
  EXPECT_EQ(alone.self().id, 1u);
  EXPECT_EQ(alone.self().pid, getpid());
  alone.leave();
}

}  // namespace
}  // namespace asup::net
