// How members of a job learn that one of them has left, was killed, or stands still.
#include <thread>

#include "asup/base/error.h"
#include "coordinator_suite.h"

namespace asup::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LostMembers : public CoordinatorTest {
 protected:
  // Rank 0 of two, when the other one has joined with it and was killed.
  Membership survivor_of(MemberProcess& victim, const Coordinator& coordinator) {
    victim.start(coordinator.address());
    Membership survivor = join(0, 2, coordinator.address()).get();
    victim.signal(SIGKILL);
    EXPECT_EQ(lost_.wait(1).size(), 1u);
    return survivor;
  }
};

TEST_F(LostMembers, GoodbyeIsNotALoss) {
  Coordinator coordinator(options(2));
  auto members = join_all(2, coordinator.address());
  Heard lost, left;
  members[0].watch({[&](const Member& member, const std::string&) { lost.add(member.describe()); },
                    [&](const Member& member) { left.add(member.describe()); }});
  const std::string who = members[1].self().describe();
  members[1].leave();
  EXPECT_EQ(left.wait(1), std::vector{who});
  EXPECT_EQ(left_.wait(1), std::vector{who});
  EXPECT_TRUE(lost.wait(1, Seconds(0.2)).empty());
  EXPECT_TRUE(lost_.wait(1, Seconds(0)).empty());
  members[0].leave();
}

TEST_F(LostMembers, AKilledMemberIsKnownToAll) {
  MemberProcess victim(join_options(1, 3, ""));
  Coordinator coordinator(options(3));
  victim.start(coordinator.address());
  auto zero = join(0, 3, coordinator.address()), two = join(2, 3, coordinator.address());
  Membership first = zero.get(), third = two.get();
  Heard to_first, to_third;
  first.watch(
      {[&](const Member& member, const std::string&) { to_first.add(member.describe()); }, {}});
  third.watch(
      {[&](const Member& member, const std::string&) { to_third.add(member.describe()); }, {}});

  victim.signal(SIGKILL);
  const std::string who = fmt::format("rank 1 (pid {} on {})", victim.pid(), this_hostname());
  EXPECT_EQ(to_first.wait(1), std::vector{who});
  EXPECT_EQ(to_third.wait(1), std::vector{who});
  EXPECT_EQ(lost_.wait(1), std::vector{who});
  first.leave();
  third.leave();
}

TEST_F(LostMembers, ALossBeforeAnybodyWatchesIsNotForgotten) {
  MemberProcess victim(join_options(1, 2, ""));
  Coordinator coordinator(options(2));
  Membership survivor = survivor_of(victim, coordinator);
  Heard heard;
  survivor.watch(
      {[&](const Member& member, const std::string&) { heard.add(member.describe()); }, {}});
  EXPECT_EQ(heard.wait(1).size(), 1u);
  survivor.leave();
}

// As under a launcher that starts again what has died.
TEST_F(LostMembers, WhoComesBackIsToldThatTheJobGoesOnWithoutIt) {
  MemberProcess victim(join_options(1, 2, ""));
  Coordinator coordinator(options(2));
  Membership survivor = survivor_of(victim, coordinator);
  EXPECT_THAT(
      thrown<BadInput>(join(1, 2, coordinator.address())),
      AllOf(HasSubstr(fmt::format("cannot take the place of rank 1 (pid {} ", victim.pid())),
            HasSubstr("Start it with asup run --join")));
  survivor.leave();
}

TEST_F(LostMembers, AStoppedMemberIsLateNotLost) {
  MemberProcess sleeper(join_options(1, 2, ""));
  CoordinatorOptions strict = options(2);
  strict.late_after = Seconds(4);
  Coordinator coordinator(strict);
  sleeper.start(coordinator.address());
  Membership other = join(0, 2, coordinator.address()).get();
  sleeper.signal(SIGSTOP);
  const std::string who = fmt::format("rank 1 (pid {} on {})", sleeper.pid(), this_hostname());
  EXPECT_EQ(late_.wait(1), std::vector{who});
  EXPECT_EQ(late_.wait(2, Seconds(0.5)).size(), 1u) << "a silence is reported once";
  EXPECT_TRUE(lost_.wait(1, Seconds(0)).empty());
  sleeper.signal(SIGCONT);
  sleeper.signal(SIGKILL);
  EXPECT_EQ(lost_.wait(1), std::vector{who});
  other.leave();
}

// All are there, and two of them have lost each other: the coordinator says who goes.
TEST_F(LostMembers, OfTwoThatAreCutApartOneIsLeftOut) {
  for (const auto& [news, out] : {std::pair(LinkNews::ended, 2), {LinkNews::breached, 1}}) {
    Coordinator coordinator(options(4));
    auto members = join_all(4, coordinator.address());
    Heard lost, left_out;
    members[0].watch(
        {[&](const Member& member, const std::string&) { lost.add(member.describe()); }, {}});
    Membership& loser = members[static_cast<std::size_t>(out)];
    loser.watch({{}, {}, [&](const std::string& why) { left_out.add(why); }});
    members[2].tell_of_link(1, news);
    EXPECT_EQ(lost.wait(1), std::vector{loser.self().describe()});
    const std::string why = left_out.wait(1).at(0);
    EXPECT_THAT(why, HasSubstr(fmt::format("the others go on without rank {}", out)));
    EXPECT_EQ(loser.why_out(), why);
    EXPECT_EQ(members[0].gone().at(0).how, Gone::How::unknown);
    EXPECT_EQ(members[3].why_out(), "");
    EXPECT_THROW((void)loser.renew(loser.self(), after(kLimit)), JobFailed);
  }
}

// As it is with one that is stopped, and cannot say anything.
TEST_F(LostMembers, WhomAllOthersMissIsLeftOut) {
  Coordinator coordinator(options(4));
  auto members = join_all(4, coordinator.address());
  Heard left_out;
  members[1].watch({{}, {}, [&](const std::string& why) { left_out.add(why); }});
  members[0].miss({1});
  members[2].miss({1});
  EXPECT_TRUE(lost_.wait(1, Seconds(0.5)).empty()) << "rank 3 may be with it";
  members[3].miss({1});
  EXPECT_EQ(lost_.wait(1), std::vector{members[1].self().describe()});
  EXPECT_THAT(left_out.wait(1).at(0),
              AllOf(HasSubstr("the others go on without rank 1"), HasSubstr("--timeout")));
  EXPECT_EQ(members[0].why_out(), "");
}

TEST_F(LostMembers, OfTwoHalvesThatMissEachOtherOneGoesOn) {
  Coordinator coordinator(options(4));
  auto members = join_all(4, coordinator.address());
  for (const int rank : {0, 1, 2, 3})
    members[static_cast<std::size_t>(rank)].miss(rank < 2 ? std::vector{2, 3} : std::vector{0, 1});
  EXPECT_EQ(lost_.wait(2).size(), 2u);
  EXPECT_EQ(lost_.wait(3, Seconds(0.5)).size(), 2u);
  const auto out = [&](int rank) {
    return !members[static_cast<std::size_t>(rank)].why_out().empty();
  };
  for (const Deadline end = after(kLimit); !out(0) && !out(2) && Clock::now() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_NE(out(0), out(2));
}

TEST_F(LostMembers, AMinorityLeavesNobodyOut) {
  Coordinator coordinator(options(4));
  auto members = join_all(4, coordinator.address());
  members[3].miss({0, 1, 2});
  EXPECT_TRUE(lost_.wait(1, Seconds(0.5)).empty());
  members[3].agree({0, 1, 2, 3});  // they came after all
  members[0].miss({1, 2});
  EXPECT_TRUE(lost_.wait(1, Seconds(0.5)).empty());
}

// The coordinator does not come either: those who are left have to be more than half.
TEST_F(LostMembers, AMajorityGoesOnWithoutACoordinatorThatDoesNotCome) {
  CoordinatorOptions hosted = options(3);
  hosted.rank = 0;
  Coordinator coordinator(hosted);
  auto members = join_all(3, coordinator.address());
  members[1].miss({0});
  Heard lost;
  members[1].watch(
      {[&](const Member& member, const std::string&) { lost.add(member.describe()); }, {}});
  EXPECT_EQ(lost.wait(1), std::vector{members[0].self().describe()});
  EXPECT_TRUE(members[1].lost_coordinator());
  EXPECT_EQ(members[1].why_out(), "");
  members[2].miss({0, 1});
  for (const Deadline end = after(kLimit); members[2].why_out().empty() && Clock::now() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(members[2].why_out(), HasSubstr("1 of 3 workers are left without the coordinator"));
}

// Its connection ends too, and nobody else has to go.
TEST_F(LostMembers, WhoEndsIsNotTakenForCutOff) {
  MemberProcess victim(join_options(1, 3, ""));
  Coordinator coordinator(options(3));
  victim.start(coordinator.address());
  auto zero = join(0, 3, coordinator.address()), two = join(2, 3, coordinator.address());
  Membership first = zero.get(), third = two.get();
  victim.signal(SIGKILL);
  first.tell_of_link(1, LinkNews::ended);
  third.tell_of_link(1, LinkNews::ended);
  EXPECT_EQ(lost_.wait(1).size(), 1u);
  EXPECT_EQ(lost_.wait(2, Seconds(3)).size(), 1u) << "two seconds after it was told";
  EXPECT_EQ(first.gone().at(0).how, Gone::How::ended);
}

TEST_F(LostMembers, AMemberKilledWhileOthersWaitEndsTheWait) {
  MemberProcess victim(join_options(1, 3, ""));
  Heard admitted;
  CoordinatorOptions watched = options(3);
  watched.callbacks.on_admitted = [&](const Member& member) { admitted.add(member.describe()); };
  Coordinator coordinator(watched);
  victim.start(coordinator.address());
  auto zero = join(0, 3, coordinator.address());
  ASSERT_EQ(admitted.wait(2).size(), 2u);
  victim.signal(SIGKILL);
  EXPECT_THAT(thrown<JobFailed>(std::move(zero)),
              AllOf(HasSubstr("rank 1 (pid"), HasSubstr("ended while it waited")));
}

TEST_F(LostMembers, AProcessThatEndedWithoutJoiningEndsTheWait) {
  Coordinator coordinator(options(2));
  coordinator.process_ended(1, "rank 1 exited with status 0 before it joined");
  EXPECT_TRUE(failed_.wait(1, Seconds(0.1)).empty()) << "nobody waits for it yet";
  EXPECT_EQ(thrown<JobFailed>(join(0, 2, coordinator.address())),
            "rank 1 exited with status 0 before it joined");
}

}  // namespace
}  // namespace asup::net
