#include "asup/net/membership/late_reports.h"

#include <gmock/gmock.h>

namespace asup::net {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::uint64_t> kFour{1, 2, 3, 4};

TEST(LateReports, WhomAllOthersMissGoes) {
  LateReports reports;
  EXPECT_TRUE(reports.empty());
  reports.add(1, {4});
  reports.add(2, {4});
  EXPECT_THAT(reports.due({1, 2, 3, 4}, kFour), IsEmpty()) << "3 may be with 4";
  reports.add(3, {4});
  EXPECT_THAT(reports.due({1, 2, 3, 4}, kFour), ElementsAre(4));
}

TEST(LateReports, TheyMustMissTheSame) {
  LateReports reports;
  reports.add(1, {3, 4});
  reports.add(2, {4});
  EXPECT_THAT(reports.due({1, 2, 3, 4}, kFour), IsEmpty());
  reports.add(2, {3, 4});
  EXPECT_THAT(reports.due({1, 2, 3, 4}, kFour), ElementsAre(3, 4));
}

TEST(LateReports, WhoIsGoneIsMissedByNobodyAndAskedNothing) {
  LateReports reports;
  reports.add(1, {3, 4});
  reports.add(2, {4});
  EXPECT_THAT(reports.due({1, 2, 4}, kFour), ElementsAre(4)) << "3 is gone";
  EXPECT_THAT(reports.due({1, 4}, kFour), ElementsAre(4)) << "2, which has told, is gone too";
  EXPECT_THAT(reports.due({1, 2}, kFour), IsEmpty());
}

TEST(LateReports, NobodyMissesItself) {
  LateReports reports;
  for (const std::uint64_t id : kFour) reports.add(id, {1, 2, 3, 4});
  EXPECT_THAT(reports.due({1, 2, 3, 4}, kFour), IsEmpty());
}

TEST(LateReports, WhoMissesNobodyAnyMoreSaysSo) {
  LateReports reports;
  reports.add(1, {2});
  reports.add(1, {});
  EXPECT_TRUE(reports.empty());
}

// Of two halves that miss each other neither is told of by all; one is by the other half alone.
TEST(LateReports, TwoThatMissEachOther) {
  LateReports reports;
  reports.add(1, {2});
  EXPECT_THAT(reports.due({1, 2}, {1, 2}), ElementsAre(2)) << "the first that tells stays";
}

// They may have gone on by themselves, and to their end, while the coordinator was stopped.
TEST(LateReports, AMajorityIsRightThoughItHasEnded) {
  LateReports reports;
  reports.add(2, {1});
  reports.add(3, {1});
  EXPECT_THAT(reports.due({1}, {1, 2, 3}), ElementsAre(1));
  EXPECT_THAT(reports.due({1, 4}, kFour), IsEmpty()) << "two of four are none";
}

}  // namespace
}  // namespace asup::net
