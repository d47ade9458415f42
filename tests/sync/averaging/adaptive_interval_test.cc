#include "asup/sync/averaging/adaptive_interval.h"

#include <gtest/gtest.h>

#include <limits>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

TEST(AdaptiveInterval, FollowsLossAndLearningRate) {
  AdaptiveInterval interval;
  EXPECT_EQ(interval.steps(), 8);
  interval.after_round(2.0, 0.1);
  EXPECT_EQ(interval.steps(), 8) << "the first loss is the measure of the others";
  interval.after_round(1.0, 0.1);
  EXPECT_EQ(interval.steps(), 6);  // 8 sqrt(1/2) = 5.66
  interval.after_round(0.01, 0.1);
  EXPECT_EQ(interval.steps(), 1);  // 8 sqrt(1/200) = 0.57
  interval.after_round(1.0, 0.05);
  EXPECT_EQ(interval.steps(), 8);  // half the loss at half the rate
  interval.after_round(2.0, 0.01);
  EXPECT_EQ(interval.steps(), 16);  // 8 sqrt(10) = 25.3
}

// k = ceil(sqrt(lr_0 loss / (lr loss_0) k_0)) with k_0 = 64.
TEST(AdaptiveInterval, IsFleetsRule) {
  AdaptiveInterval interval;
  interval.after_round(2.3, 0.4);
  for (const double loss : {2.2, 1.7, 0.9, 0.33, 0.04})
    for (const double lr : {0.4, 0.3, 0.1, 0.004}) {
      interval.after_round(loss, lr);
      const double fleet = std::ceil(std::sqrt(0.4 * loss / (lr * 2.3) * 64));
      EXPECT_EQ(interval.steps(), std::clamp(fleet, 1.0, 16.0)) << loss << " at " << lr;
    }
}

TEST(AdaptiveInterval, AWarmUpDoesNotCount) {
  AdaptiveInterval interval;
  for (const double lr : {0.001, 0.01, 0.1}) {
    interval.after_round(2.0, lr);
    EXPECT_EQ(interval.steps(), 8) << "at " << lr;
  }
}

TEST(AdaptiveInterval, WhatIsNoLossChangesNothing) {
  AdaptiveInterval interval;
  interval.after_round(2.0, 0.1);
  interval.after_round(1.0, 0.1);
  for (const double loss : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()})
    interval.after_round(loss, 0.1);
  interval.after_round(2.0, 0);
  EXPECT_EQ(interval.steps(), 6);
}

TEST(AdaptiveInterval, GoesOnFromItsText) {
  AdaptiveInterval interval;
  interval.after_round(2.0 / 3, 0.1);
  interval.after_round(0.5, 0.07);
  AdaptiveInterval again(interval.to_text());
  EXPECT_EQ(again.to_text(), interval.to_text());
  again.after_round(0.31, 0.033);
  interval.after_round(0.31, 0.033);
  EXPECT_EQ(again.steps(), interval.steps());
  EXPECT_EQ(AdaptiveInterval("").steps(), 8);
  for (const char* text :
       {"order 1 0", "every 0 1 1", "every 17 1 1", "every 3 1", "every 3 1 1 1", "every 3 -1 1"})
    EXPECT_THROW(AdaptiveInterval{text}, BadInput) << text;
}

}  // namespace
}  // namespace asup::sync
