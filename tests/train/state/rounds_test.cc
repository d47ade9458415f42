#include "asup/train/state/rounds.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "asup/sync/server/parameter_server.h"
#include "tests/support/thrown.h"

namespace asup::train {
namespace {

using asup::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Rounds, AnEpochEndsWithAShorterOne) {
  const Rounds rounds(4, 10);
  EXPECT_EQ(rounds.per_epoch(), 3);
  const std::int64_t steps[] = {0, 4, 8, 10, 14, 18, 20};
  for (std::int64_t i = 0; i < 7; ++i) {
    EXPECT_EQ(rounds.steps_after(i), steps[i]);
    EXPECT_EQ(rounds.rounds_after(steps[i]), i);
  }
  EXPECT_THAT(message_of<BadInput>([&] { rounds.rounds_after(15); }),
              HasSubstr("after step 15, for a test, a checkpoint or the end"));
}

// 100 samples in batches of 12 are 9 steps, the last of 4 samples.
TEST(Rounds, TheWorkIsDealtOutInRounds) {
  TrainConfig config;
  config.batch = 12;
  config.strategy = ParameterServer{.merge = Merge::mean, .every = 2};
  config.epochs = 2;
  config.checkpoint_every = {Every::Kind::never, 0};
  const data::ShardedBatches batches(100, 0, 0, 2, 12, data::Remainder::keep);
  const RunLength length = run_length(config, static_cast<std::int64_t>(batches.steps_per_epoch()));
  const auto work = work_of(config, length, batches, 9);
  EXPECT_EQ(work.steps, 10u);
  EXPECT_EQ(work.first_step, 5u);
  EXPECT_EQ(work.batch, 24u);
  EXPECT_EQ(work.steps_per_epoch, 5u);
  EXPECT_EQ(work.last_batch, 4u);
  EXPECT_THAT(work.sync_points, ElementsAre(5, 10));
}

}  // namespace
}  // namespace asup::train
