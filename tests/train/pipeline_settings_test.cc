#include "asup/train/pipeline_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/train/resolve.h"
#include "tests/train/said.h"

namespace asup::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::said;

TrainConfig of(std::int64_t workers, std::int64_t pipeline, std::int64_t batch) {
  TrainConfig config;
  config.workers = workers;
  config.pipeline = pipeline;
  config.batch = batch;
  return config;
}

TEST(PipelineSettings, GroupsShareBatches) {
  EXPECT_EQ(groups_of(of(4, 1, 64)), 4);
  EXPECT_EQ(groups_of(of(4, 2, 64)), 2);
  EXPECT_EQ(groups_of(of(4, 4, 64)), 1);
  EXPECT_EQ(grid_shape(of(4, 2, 64)), (parallel::GridShape{.data = 2, .pipeline = 2}));
  TrainConfig cut = of(8, 1, 64);
  cut.tensor = 2;
  EXPECT_EQ(groups_of(cut), 4);
  EXPECT_EQ(grid_shape(cut), (parallel::GridShape{.data = 4, .tensor = 2}));
}

TEST(PipelineSettings, MicroBatchesDivideAPartOfABatch) {
  EXPECT_EQ(micro_batches_of(of(4, 2, 64)), 8);  // four for each stage
  EXPECT_EQ(micro_batches_of(of(2, 2, 12)), 6);  // 8 do not divide 12
  EXPECT_EQ(micro_batches_of(of(2, 2, 7)), 7);
  EXPECT_EQ(micro_batches_of(of(2, 2, 13)), 1);
  TrainConfig given = of(4, 2, 64);
  given.microbatches = 16;
  EXPECT_EQ(micro_batches_of(given), 16);
  EXPECT_EQ(samples_at_a_time(given), 2);
}

TEST(PipelineSettings, ShorterBatchesHaveFewerMicroBatches) {
  const TrainConfig config = of(2, 2, 64);  // 8 micro-batches of 8
  EXPECT_EQ(micro_batches_for(64, config), 8);
  EXPECT_EQ(micro_batches_for(24, config), 6);  // of 4
  EXPECT_EQ(micro_batches_for(6, config), 1);
  EXPECT_EQ(micro_batches_for(1, config), 1);
  EXPECT_EQ(micro_batches_for(37, config), 1);
}

// At a pace of their own, groups get shares of other lengths.
TEST(PipelineSettings, LongerBatchesHaveMoreMicroBatches) {
  const TrainConfig config = of(4, 2, 32);  // 8 micro-batches of 2
  EXPECT_EQ(micro_batches_for(16, config), 8);
  EXPECT_EQ(micro_batches_for(26, config), 13);
  EXPECT_EQ(micro_batches_for(8, config), 4);
  EXPECT_EQ(micro_batches_for(6, config), 3);
}

TEST(PipelineSettings, ACutIsReadAsItIsWritten) {
  TrainConfig config = of(2, 2, 64);
  for (const char* word : {"auto", "even"}) {
    config.pipeline_cut = word;
    EXPECT_THAT(layers_by_setting(config), IsEmpty());
  }
  config.pipeline_cut = "4,15";
  EXPECT_THAT(layers_by_setting(config), ElementsAre(4, 15));
  for (const char* text : {"", "4", "4,", ",4", "4,0", "4,-1", "4;5", "4,5,6", "4, 5"}) {
    config.pipeline_cut = text;
    EXPECT_THROW(layers_by_setting(config), BadInput) << text;
  }
}

TEST(PipelineSettings, ALaterSourceTakesThemAlong) {
  config::Given given;
  given.begin_source();
  for (const auto& [name, value] : {std::pair{"pipeline", "2"},
                                    {"pipeline-schedule", "zb1p"},
                                    {"pipeline-cut", "2,3"},
                                    {"microbatches", "8"}})
    given.say(name, std::string(value), name);
  given.begin_source();
  config::Given wider = given;
  wider.say("pipeline", std::string("4"), "--pipeline");
  EXPECT_EQ(config_from(wider).pipeline_schedule, "zb1p");
  EXPECT_EQ(config_from(wider).pipeline_cut, "auto");
  given.say("pipeline", std::string("1"), "--pipeline");
  EXPECT_EQ(config_from(given).pipeline_schedule, "1f1b");
  EXPECT_EQ(config_from(given).microbatches, std::nullopt);
}

}  // namespace
}  // namespace asup::train
