#include "asup/train/batch_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup::train {
namespace {

Updates updates_of(const std::string& schedule, RunLength length) {
  TrainConfig config;
  config.batch_schedule = schedule;
  return {config, length};
}

// Steps at which updates end.
std::vector<std::int64_t> ends(const Updates& updates, std::int64_t steps) {
  std::vector<std::int64_t> ends;
  for (std::int64_t at = 0; at < steps;) ends.push_back(at += updates.steps(at));
  return ends;
}

TEST(BatchSchedule, AnUpdateIsAStepWhereNothingGrows) {
  const Updates updates = updates_of("none", {7, 3});
  EXPECT_FALSE(updates.grow());
  EXPECT_THAT(ends(updates, 7), ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(updates.count(), 7);
  EXPECT_EQ(updates.end(5), 5);
}

TEST(BatchSchedule, GrowthsMultiply) {
  const Updates updates = updates_of("2@4,4@50%", {32, 100});
  EXPECT_TRUE(updates.grow());
  EXPECT_THAT(ends(updates, 32), ::testing::ElementsAre(1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 24, 32));
}

TEST(BatchSchedule, AnUpdateEndsWithItsEpochAndWithTheRun) {
  const Updates updates = updates_of("4@5", {18, 10});
  EXPECT_THAT(ends(updates, 18), ::testing::ElementsAre(1, 2, 3, 4, 5, 9, 10, 14, 18));
  EXPECT_EQ(updates.count(), 9);
  for (const auto& [step, end] :
       {std::pair{0, 0}, {5, 5}, {6, 9}, {9, 9}, {10, 10}, {11, 14}, {18, 18}})
    EXPECT_EQ(updates.end(step), end) << step;
  for (const auto& [step, begin] : {std::pair{0, 0}, {5, 5}, {8, 5}, {9, 9}, {10, 10}, {17, 14}})
    EXPECT_EQ(updates.begin(step), begin) << step;
}

TEST(BatchSchedule, AnUpdateThatIsUnderWayIsNotCut) {
  EXPECT_THAT(ends(updates_of("4@2,2@5", {20, 100}), 20), ::testing::ElementsAre(1, 2, 6, 14, 20));
}

TEST(BatchSchedule, SaysWhatIsWrong) {
  for (const char* text : {"", "4", "4@", "@50%", "1@50%", "0.5@50%", "4@101%", "4@50%,", "4@-1",
                           "x@3", "65537@2", "256@2,512@3"})
    EXPECT_THROW(parse_batch_schedule(text), BadInput) << text;
  for (const char* text : {"2@0", "2@100%", "2@40", "2@20,2@10", "2@25%,2@10"})
    EXPECT_THROW(updates_of(text, {40, 10}), BadInput) << text;
}

}  // namespace
}  // namespace asup::train
