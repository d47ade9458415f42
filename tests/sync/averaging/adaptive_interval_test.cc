#include "asup/sync/averaging/adaptive_interval.h"

#include <gtest/gtest.h>

#include <limits>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

// Rounds that are as long as it takes for a new choice.
constexpr AdaptiveIntervalOptions kOptions{.first_steps = 20, .seconds = Seconds(60)};
constexpr Seconds kLong{60};

TEST(AdaptiveInterval, FollowsTheLoss) {
  AdaptiveInterval interval(kOptions);
  EXPECT_EQ(interval.steps(), 20);
  interval.after_round(2.0, 0.1, Seconds(1));  // the measure of the others
  interval.after_round(1.0, 0.1, kLong);
  EXPECT_EQ(interval.steps(), 15);  // 20 sqrt(1/2) = 14.1
  interval.after_round(0.5, 0.1, kLong);
  EXPECT_EQ(interval.steps(), 10);
  interval.after_round(0.001, 0.1, kLong);
  EXPECT_EQ(interval.steps(), 1);  // 20 sqrt(1/2000) = 0.4
}

TEST(AdaptiveInterval, ChoosesOnceInATime) {
  AdaptiveInterval interval(kOptions);
  interval.after_round(2.0, 0.1, Seconds(1));
  interval.after_round(0.5, 0.1, Seconds(29));
  interval.after_round(0.5, 0.1, Seconds(29));
  EXPECT_EQ(interval.steps(), 20) << "59 seconds";
  interval.after_round(0.5, 0.1, Seconds(2));
  EXPECT_EQ(interval.steps(), 10);
  interval.after_round(0.02, 0.1, Seconds(59));
  EXPECT_EQ(interval.steps(), 10) << "they count from the last choice";
}

// A loss that does not fall may stand still because models drift.
TEST(AdaptiveInterval, IsHalvedWhereItWouldNotBecomeLess) {
  AdaptiveInterval interval(kOptions);
  interval.after_round(2.0, 0.1, Seconds(1));
  for (const std::int64_t steps : {10, 5, 3, 2, 1, 1}) {
    interval.after_round(2.0, 0.1, kLong);
    EXPECT_EQ(interval.steps(), steps);
  }
}

TEST(AdaptiveInterval, GrowsWhenTheLearningRateFalls) {
  AdaptiveInterval interval(kOptions);
  interval.after_round(2.0, 0.1, Seconds(1));
  interval.after_round(0.5, 0.1, kLong);
  EXPECT_EQ(interval.steps(), 10);
  interval.after_round(0.5, 0.01, kLong);
  EXPECT_EQ(interval.steps(), 32);  // 20 sqrt(10 / 4) = 31.6
  interval.after_round(0.5, 0.01, kLong);
  EXPECT_EQ(interval.steps(), 16) << "which is no reason to grow twice";
}

TEST(AdaptiveInterval, AWarmUpDoesNotCount) {
  AdaptiveInterval interval(kOptions);
  for (const double lr : {0.001, 0.01, 0.1}) interval.after_round(2.0, lr, Seconds(1));
  interval.after_round(0.5, 0.1, kLong);
  EXPECT_EQ(interval.steps(), 10);
}

TEST(AdaptiveInterval, WhatIsNoLossChangesNothing) {
  AdaptiveInterval interval(kOptions);
  interval.after_round(2.0, 0.1, Seconds(1));
  for (const double loss : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()})
    interval.after_round(loss, 0.1, kLong);
  interval.after_round(2.0, 0, kLong);
  EXPECT_EQ(interval.steps(), 20);
}

TEST(AdaptiveInterval, GoesOnFromItsText) {
  AdaptiveInterval interval(kOptions);
  interval.after_round(2.0 / 3, 0.1, Seconds(1));
  interval.after_round(0.5, 0.07, kLong);
  interval.after_round(0.4, 0.07, Seconds(31));
  AdaptiveInterval again(kOptions, interval.to_text());
  EXPECT_EQ(again.to_text(), interval.to_text());
  again.after_round(0.31, 0.07, Seconds(29.5));
  interval.after_round(0.31, 0.07, Seconds(29.5));
  EXPECT_EQ(again.to_text(), interval.to_text());
  for (const char* text : {"order 1 0", "every 0 1 1 1 0", "every 3 1 1 1", "every 3 1 1 1 0 0",
                           "every 3 -1 1 1 0", "every 3 1 1 1 -1"})
    EXPECT_THROW(AdaptiveInterval(kOptions, text), BadInput) << text;
}

TEST(AdaptiveInterval, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(AdaptiveInterval({.first_steps = 0}), BadInput);
  EXPECT_THROW(AdaptiveInterval({.seconds = Seconds(0)}), BadInput);
}

}  // namespace
}  // namespace asup::sync
