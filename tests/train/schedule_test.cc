#include "asup/train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace asup::train {
namespace {

TEST(Schedule, LengthComesFromEpochsOrSteps) {
  TrainConfig config;
  config.epochs = 3;
  EXPECT_EQ(run_length(config, 10).steps, 30);
  config.epochs.reset();
  config.steps = 25;
  EXPECT_EQ(run_length(config, 10).steps, 25);
  EXPECT_EQ(run_length(config, 10).epochs(), 3);
}

TEST(Schedule, WarmUpRisesInEvenSteps) {
  TrainConfig config;
  config.lr = 1;
  config.warmup = 4;
  const RunLength length{100, 10};
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 99), 1);
}

TEST(Schedule, GrowsWithTheBatchOrItsRoot) {
  TrainConfig config;
  config.lr = 0.1;
  config.batch = 512;
  config.base_batch = 128;
  config.warmup = 4;
  const RunLength length{100, 10};
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 50), 0.1);
  config.lr_scale = "linear";
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 50), 0.4);
  EXPECT_THAT(describe_learning_rate(config),
              ::testing::HasSubstr("lr 0.4 (0.1, linear for a batch of 128 to 512)"));
  config.lr_scale = "sqrt";
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 50), 0.2);
  for (const char* schedule : {"cosine", "step", "power"}) {
    config.schedule = schedule;
    config.warmup = 0;
    EXPECT_DOUBLE_EQ(learning_rate(config, length, 0), 0.2) << schedule;
  }
}

TEST(Schedule, PowerFallsByEpochs) {
  TrainConfig config;
  config.lr = 2;
  config.schedule = "power";
  const RunLength length{100, 10};
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 9), 2);
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 39), 1);
  config.eta_min = 4;
  config.power = 2;
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 0), 8);
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 70), 1);
}

TEST(Schedule, CosineFallsFromTheRateToNearZero) {
  TrainConfig config;
  config.lr = 2;
  config.schedule = "cosine";
  const RunLength length{100, 10};
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 0), 2);
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 50), 1);
  EXPECT_GT(learning_rate(config, length, 99), 0);
  EXPECT_LT(learning_rate(config, length, 99), 1e-3);
  config.warmup = 200;  // longer than the run: it never gets further
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 99), 1);
}

TEST(Schedule, StepFallsAfterSoManyEpochs) {
  TrainConfig config;
  config.lr = 1;
  config.schedule = "step";
  config.decay_every = 2;
  const RunLength length{60, 10};
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 19), 1);
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 20), 0.1);
  EXPECT_NEAR(learning_rate(config, length, 59), 0.01, 1e-12);
  config.decay_every.reset();  // a third of the six epochs
  EXPECT_DOUBLE_EQ(learning_rate(config, length, 20), 0.1);
}

TEST(Schedule, AllMeetWhereThereIsSomethingToDoTogether) {
  using ::testing::ElementsAre;
  TrainConfig config;  // tests and checkpoints every epoch
  const RunLength length{25, 10};
  EXPECT_THAT(sync_points(config, length), ElementsAre(10, 20, 25));
  config.eval_every = {Every::Kind::steps, 6};
  config.checkpoint_every = {Every::Kind::steps, 5};
  EXPECT_THAT(sync_points(config, length), ElementsAre(5, 6, 10, 12, 15, 18, 20, 24, 25));
  config.stop_at = 11;
  EXPECT_THAT(sync_points(config, length), ElementsAre(5, 6, 10, 11));
  config.stop_at = 30;
  config.eval_every.kind = config.checkpoint_every.kind = Every::Kind::never;
  EXPECT_THAT(sync_points(config, length), ElementsAre(10, 20, 25));
}

TEST(Schedule, IsToldInWords) {
  TrainConfig config;
  config.lr = 0.05;
  config.schedule = "constant";
  EXPECT_EQ(describe_learning_rate(config), "lr 0.05");
  config.warmup = 100;
  config.schedule = "cosine";
  EXPECT_EQ(describe_learning_rate(config),
            "lr 0.05 after a warm-up of 100 steps, schedule cosine");
}

}  // namespace
}  // namespace asup::train
