#include "asup/ps/pace/sensitivity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace asup::ps::pace {
namespace {

// A job whose log loss falls by 0.1 in 16 steps, and by 1 / (1 + gamma s) of that while gradients
// are s = 2 steps late, which is so in every other window.
double observed(double gamma) {
  Sensitivity sensitivity(0.9);
  double log_loss = 0;
  for (int step = 0; step < 16 * 40; ++step) {
    const double staleness = step / 32 % 2 == 0 ? 0 : 2;
    log_loss -= 0.1 / 16 / (1 + gamma * staleness);
    for (int worker = 0; worker < 4; ++worker)
      sensitivity.add(0.25, std::exp(log_loss) * (1 + 0.001 * (worker - 1.5)), staleness);
  }
  return sensitivity.gamma();
}

TEST(Sensitivity, StartsFromWhatMomentumTells) {
  EXPECT_NEAR(Sensitivity(0.9).gamma(), 0.58, 0.02);
  EXPECT_LT(Sensitivity(0.5).gamma(), 0.45);
  EXPECT_LT(Sensitivity(0).gamma(), 0.2);
}

TEST(Sensitivity, LearnsWhatStalenessCosts) {
  EXPECT_LT(observed(0), 0.25);
  EXPECT_GT(observed(2), 1.4);
}

TEST(Sensitivity, NothingIsLearnedFromLossesThatDoNotFallOrAreNone) {
  Sensitivity sensitivity(0.9);
  const double prior = sensitivity.gamma();
  for (int step = 0; step < 1000; ++step) {
    sensitivity.add(1, 2, step / 40 % 2);
    sensitivity.add(1, std::nan(""), 1);
    sensitivity.add(1, -1, 1);
  }
  EXPECT_DOUBLE_EQ(sensitivity.gamma(), prior);
}

// A quiet job whose loss jumps up while gradients are late is like none of the values.
TEST(Sensitivity, AJumpOfTheLossTellsNothing) {
  Sensitivity sensitivity(0.9);
  const double prior = sensitivity.gamma();
  for (int step = 0; step < 32; ++step) sensitivity.add(1, 2 - 0.0005 * step, 0);
  for (int step = 0; step < 32; ++step) sensitivity.add(1, step < 16 ? 2 : 2000, 2);
  EXPECT_DOUBLE_EQ(sensitivity.gamma(), prior);
}

}  // namespace
}  // namespace asup::ps::pace
