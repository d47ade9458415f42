#include "asup/gossip/stuck_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace asup::gossip {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WhoHoldsUp, NobodyWhereNothingIsStuck) { EXPECT_THAT(who_holds_up({}, 0), IsEmpty()); }

TEST(WhoHoldsUp, TheOneAtTheEndsOfMostLinks) {
  // A ring 0 1 2 3, where the links to and from 2 are slow.
  EXPECT_THAT(who_holds_up({{1, 2, 900}, {2, 3, 10}}, 0), ElementsAre(2));
  // And where it can get rid of nothing, whoever it sends to.
  EXPECT_THAT(who_holds_up({{3, 0, 10}, {3, 1, 10}, {3, 2, 10}, {1, 2, 9000}}, 0),
              ElementsAre(2, 3));
}

TEST(WhoHoldsUp, OfTwoTheOneWithMoreBytes) {
  // 1 -> 2 and 3 -> 2 make it 2; of 4 -> 5 either would do, and both have the same.
  EXPECT_THAT(who_holds_up({{1, 2, 5}, {3, 2, 5}, {4, 5, 7}}, 0), ElementsAre(2, 5));
  // 1, 2 and 3 have two links each.
  EXPECT_THAT(who_holds_up({{1, 2, 100}, {3, 1, 1}, {2, 3, 60}}, 0), ElementsAre(2, 3));
}

TEST(WhoHoldsUp, AtALinkOfTheFirstTheOtherGoes) {
  EXPECT_THAT(who_holds_up({{0, 1, 5}}, 0), ElementsAre(1));
  EXPECT_THAT(who_holds_up({{2, 3, 5}}, 2), ElementsAre(3));
  EXPECT_THAT(who_holds_up({{0, 1, 5}, {0, 2, 5}, {2, 1, 5}}, 0), ElementsAre(1, 2));
}

TEST(WhoHoldsUp, WhereTheFirstIsTheSlowOneItIsWaitedFor) {
  EXPECT_THAT(who_holds_up({{0, 1, 5}, {0, 2, 5}, {3, 0, 5}}, 0), IsEmpty());
  EXPECT_THAT(who_holds_up({{0, 1, 5}, {0, 2, 5}, {3, 0, 5}, {3, 2, 5}}, 0), ElementsAre(3));
}

}  // namespace
}  // namespace asup::gossip
