#include "asup/ps/pace/timing.h"

#include <gtest/gtest.h>

namespace asup::ps::pace {
namespace {

Timing timing_of(const std::vector<double>& seconds) {
  Timing timing;
  timing.add(1, 50);  // the first lease
  for (const double value : seconds) timing.add(1, value);
  return timing;
}

TEST(Timing, OnePauseChangesNothingThatIsExpected) {
  const Timing timing = timing_of({1, 1, 1, 1, 6});
  EXPECT_DOUBLE_EQ(timing.typical(), 1);
  EXPECT_DOUBLE_EQ(timing.overdue(), 1.1);
  EXPECT_EQ(timing.seconds().size(), 5u);  // but it is remembered
}

TEST(Timing, TheFirstLeaseCountsOnlyUntilThereIsASecond) {
  Timing timing;
  timing.add(1, 50);
  EXPECT_DOUBLE_EQ(timing.typical(), 50);
  timing.add(1, 2);
  EXPECT_DOUBLE_EQ(timing.typical(), 2);
  EXPECT_EQ(timing.seconds().size(), 1u);
}

TEST(Timing, TwoInARowThatAgreeAreANewSpeed) {
  const Timing slower = timing_of({1, 1, 1, 1, 1, 1, 4, 4.1});
  EXPECT_GE(slower.typical(), 4);
  EXPECT_EQ(slower.seconds().size(), 2u);
  const Timing again = timing_of({4, 4, 4, 4, 1, 1});
  EXPECT_DOUBLE_EQ(again.typical(), 1);
}

TEST(Timing, TwoInARowThatDisagreeAreTwoPauses) {
  const Timing timing = timing_of({1, 1, 1, 1, 1, 3, 9});
  EXPECT_DOUBLE_EQ(timing.typical(), 1);
}

TEST(Timing, LinksThatBecomeSlowerAreANewSpeedToo) {
  Timing timing;
  for (int i = 0; i < 20; ++i) timing.add(1, 1.0, 0.35);
  timing.add(1, 1.35, 0.7);  // not half as long again as a lease was
  EXPECT_NEAR(timing.exchange(), 0.35, 1e-9);
  timing.add(1, 1.35, 0.7);
  EXPECT_NEAR(timing.exchange(), 0.7, 1e-9);
  EXPECT_EQ(timing.seconds().size(), 2u);
}

TEST(Timing, ExchangesThatAreNearlyNothingAreNoNews) {
  Timing timing;
  for (int i = 0; i < 20; ++i) timing.add(1, 1.0, 0.01);
  for (int i = 0; i < 3; ++i) timing.add(1, 1.05, 0.06);
  EXPECT_EQ(timing.seconds().size(), 23u - 1);  // all but the first
}

TEST(Timing, JitterWidensWhatIsNotYetOverdue) {
  const Timing timing = timing_of({1, 1.2, 0.8, 1.1, 0.9, 1.2, 0.8});
  EXPECT_DOUBLE_EQ(timing.typical(), 1);
  EXPECT_DOUBLE_EQ(timing.overdue(), 2);
}

TEST(Timing, AFewTimesMakeNobodyOverdueSoon) {
  EXPECT_DOUBLE_EQ(timing_of({1}).overdue(), 1.3);
  EXPECT_DOUBLE_EQ(timing_of({1, 1}).overdue(), 1.3);
  EXPECT_DOUBLE_EQ(timing_of({1, 1, 1}).overdue(), 1.1);
}

TEST(Timing, TheFixedShareIsLearnedWhereLengthsChange) {
  Timing all_fixed, all_proportional;
  for (int i = 0; i < 20; ++i) {
    const double length = i / 5 % 2 == 0 ? 1 : 0.25;
    all_fixed.add(length, 2);
    all_proportional.add(length, 2 * length);
  }
  EXPECT_GT(all_fixed.fixed(), 0.75);
  EXPECT_LT(all_proportional.fixed(), 0.02);
  EXPECT_NEAR(all_proportional.typical(), 2, 0.1);
  EXPECT_NEAR(all_proportional.typical() * all_proportional.factor(0.5), 1, 0.1);
  EXPECT_NEAR(all_proportional.length_for(1), 0.5, 0.05);
}

}  // namespace
}  // namespace asup::ps::pace
