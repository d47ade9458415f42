#include "asup/train/loop/sync_point_tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup::train {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Rows end where logging intervals do, counted from the run's begin, and at the sync point.
TEST(SyncPointTally, RowsAreThoseOfARunInStep) {
  SyncPointTally tally(5);
  tally.begin(0, 0);
  EXPECT_THAT(tally.last_steps(12), ElementsAre(5, 10, 12));
  EXPECT_THAT(tally.last_steps(10), ElementsAre(5, 10));
  tally.begin(12, 0);
  EXPECT_THAT(tally.last_steps(21), ElementsAre(15, 20, 21));
  EXPECT_THAT(tally.last_steps(12), IsEmpty());
}

TEST(SyncPointTally, LeasesCountWhereTheirStepIs) {
  SyncPointTally tally(5);
  tally.begin(12, 100);
  tally.add(14, 3, 8, 0.5, 101);
  tally.add(12, 1, 4, 0.25, 102);
  tally.add(20, 7, 8, 1, 103);
  EXPECT_THAT(tally.sums(21), ElementsAre(4, 12, 0.75, 0, 0, 0, 7, 8, 1));
  EXPECT_THAT(tally.sums(17), ElementsAre(4, 12, 0.75, 7, 8, 1)) << "nothing is left out";
  tally.begin(21, 104);
  EXPECT_THAT(tally.sums(23), ElementsAre(0, 0, 0));
}

TEST(SyncPointTally, WhoWasLateCountsWhereTheOthersAre) {
  SyncPointTally tally(5);
  tally.begin(12, 100);
  tally.add(14, 3, 8, 0.5, 101);
  tally.add(20, 7, 8, 1, 103);
  tally.go_on_from(34, 104);
  EXPECT_THAT(tally.sums(40), ElementsAre(10, 16, 1.5, 0, 0, 0));
  EXPECT_EQ(tally.began(), 104);
}

TEST(SyncPointTally, RefusesWhatBelongsToRowsThatAreWritten) {
  SyncPointTally tally(5);
  tally.begin(12, 100);
  tally.add(10, 3, 8, 0.5, 101);  // the row goes on
  EXPECT_THROW(tally.add(9, 3, 8, 0.5, 101), Error);
}

TEST(SyncPointTally, TimesAreThisWorkersAndFilledInBetween) {
  SyncPointTally tally(1);
  tally.begin(0, 10);
  tally.add(0, 1, 1, 0, 11);
  tally.add(3, 1, 1, 0, 17);
  EXPECT_THAT(tally.ends(5, 20), ElementsAre(11, 13, 15, 17, 20));
  tally.begin(5, 20);
  EXPECT_THAT(tally.ends(7, 24), ElementsAre(DoubleEq(22), DoubleEq(24))) << "it had nothing to do";
  tally.add(6, 1, 1, 0, 21);
  tally.add(5, 1, 1, 0, 23);  // another's lease, which was lost
  EXPECT_THAT(tally.ends(7, 24), ElementsAre(23, 24));
}

}  // namespace
}  // namespace asup::train
