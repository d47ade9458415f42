#include "asup/train/loop/sample_count.h"

#include <gtest/gtest.h>

namespace asup::train {
namespace {

// Epochs of 5 steps: four of 24 samples and one of 4.
class OfHundred : public ::testing::Test {
 protected:
  const data::ShardedBatches batches{100, 1, 0, 2, 24, data::Remainder::keep};
  const SampleCount samples{RunLength{12, 5}, batches};
};

TEST_F(OfHundred, CountsShorterLastBatches) {
  EXPECT_EQ(samples.of(0), 0);
  EXPECT_EQ(samples.of(4), 96);
  EXPECT_EQ(samples.of(5), 100);
  EXPECT_EQ(samples.of(12), 248);
}

TEST_F(OfHundred, FindsTheStepOfASample) {
  EXPECT_EQ(samples.step_at(0), 0);
  EXPECT_EQ(samples.step_at(23), 0);
  EXPECT_EQ(samples.step_at(24), 1);
  EXPECT_EQ(samples.step_at(99), 4);
  EXPECT_EQ(samples.step_at(100), 5);
  EXPECT_EQ(samples.step_at(248), 11);
  EXPECT_EQ(samples.step_at(100000), 11);
}

TEST_F(OfHundred, AStepThatHasBegunCounts) {
  EXPECT_EQ(samples.steps_for(0), 0);
  EXPECT_EQ(samples.steps_for(1), 1);
  EXPECT_EQ(samples.steps_for(24), 1);
  EXPECT_EQ(samples.steps_for(25), 2);
  EXPECT_EQ(samples.steps_for(100), 5);
}

}  // namespace
}  // namespace asup::train
