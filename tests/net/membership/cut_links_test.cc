#include "asup/net/membership/cut_links.h"

#include <gmock/gmock.h>

namespace asup::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Ids count from 1, so that rank r has r + 1; the last is a server.
Roster roster_of(int workers, int servers = 0) {
  Roster roster{1, {}};
  for (int rank = 0; rank < workers + servers; ++rank) {
    Member member;
    member.id = static_cast<std::uint64_t>(rank) + 1;
    member.rank = rank;
    if (rank >= workers) member.server = rank - workers;
    roster.members.push_back(member);
  }
  return roster;
}

// Ranks that go, where these pairs of ranks have lost each other.
std::vector<int> who_goes(const Roster& roster, const std::vector<std::pair<int, int>>& cut,
                          bool breach = false) {
  CutLinks links;
  for (const auto& [a, b] : cut)
    links.add(static_cast<std::uint64_t>(a) + 1, static_cast<std::uint64_t>(b) + 1, breach, {});
  std::vector<int> gone;
  while (const auto choice = links.next(roster)) {
    gone.push_back(roster.find(choice->id)->rank);
    links.forget(choice->id);
  }
  return gone;
}

TEST(CutLinks, AsFewGoAsMayBe) {
  EXPECT_THAT(who_goes(roster_of(4), {}), IsEmpty());
  EXPECT_THAT(who_goes(roster_of(4), {{1, 2}}), ElementsAre(2)) << "the highest rank";
  EXPECT_THAT(who_goes(roster_of(4), {{2, 1}}), ElementsAre(2)) << "whoever tells of it";
  EXPECT_THAT(who_goes(roster_of(4), {{0, 1}, {0, 2}, {0, 3}}), ElementsAre(0));
  EXPECT_THAT(who_goes(roster_of(4), {{0, 2}, {0, 3}, {1, 2}, {1, 3}}), ElementsAre(3, 2));
}

TEST(CutLinks, AWorkerGoesBeforeAServer) {
  EXPECT_THAT(who_goes(roster_of(2, 1), {{0, 2}}), ElementsAre(0));
  EXPECT_THAT(who_goes(roster_of(2, 1), {{0, 2}, {1, 2}}), ElementsAre(2)) << "no worker has it";
}

TEST(CutLinks, WhoBrokeTheProtocolGoesFirst) {
  EXPECT_THAT(who_goes(roster_of(4), {{2, 1}}, true), ElementsAre(1));
  CutLinks links;
  links.add(3, 2, true, {});
  EXPECT_THAT(links.next(roster_of(4))->why, HasSubstr("broke the protocol"));
}

TEST(CutLinks, WaitForThoseWhoEnd) {
  CutLinks links;
  const Clock::time_point now = Clock::now();
  EXPECT_FALSE(links.due(now + std::chrono::hours(1)));
  links.add(1, 2, false, now);
  EXPECT_FALSE(links.due(now));
  EXPECT_TRUE(links.due(now + std::chrono::hours(1)));
  EXPECT_THAT(links.ends(), ElementsAre(1u, 2u));
  links.forget(2);
  EXPECT_FALSE(links.due(now + std::chrono::hours(1))) << "its connection ended as well";
}

}  // namespace
}  // namespace asup::net
