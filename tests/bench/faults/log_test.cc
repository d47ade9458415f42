#include "asup/bench/faults/log.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using ::testing::ElementsAre;

TEST(FaultsLog, EachStepIsInOneRow) {
  EXPECT_EQ(count_lost({1, 2, 3, 4}, 4, 0), 0);
  EXPECT_EQ(count_lost({1, 2, 3}, 4, 3), 1);
  EXPECT_EQ(count_lost({}, 4, 3), 4);
  EXPECT_EQ(count_lost({1, 2, 2, 3, 4}, 4, 3), 1);
  EXPECT_EQ(count_lost({1, 2, 3, 1, 2, 3, 4}, 4, 3), 3);
}

TEST(FaultsLog, SomeMayBeInTheRowOfTheNext) {
  EXPECT_EQ(count_lost({1, 5, 6}, 6, 3), 0);
  EXPECT_EQ(count_lost({1, 6}, 6, 3), 1);
  EXPECT_EQ(count_lost({2, 4, 6}, 6, 2), 1);
}

TEST(FaultsLog, LossesOfAsManySamplesAreThoseOfAJobWithoutFaults) {
  const LoggedLosses was{{1, {2.0, 24}}, {2, {1.5, 24}}, {3, {1.2, 24}}};
  EXPECT_FALSE(differ(was, was, 0));
  EXPECT_FALSE(differ({{1, {2.0, 24}}, {2, {1.9, 18}}, {3, {1.2001, 24}}}, was, 1));
  EXPECT_TRUE(differ({{1, {2.0, 24}}, {2, {1.9, 18}}, {3, {1.2001, 24}}}, was, 0));
  EXPECT_TRUE(differ({{1, {2.0, 24}}, {2, {1.6, 24}}, {3, {1.2, 24}}}, was, 3));
  EXPECT_TRUE(differ({{1, {std::nan(""), 24}}}, was, 3));
}

// Of a worker that begins a batch at each of these times, in seconds, in a run of a hundred steps.
std::vector<BatchBegin> batches(const std::vector<std::pair<double, int>>& steps_at) {
  std::vector<BatchBegin> all;
  for (const auto& [seconds, step] : steps_at) all.push_back({seconds, step / 100.0});
  return all;
}

TEST(FaultsLog, OneHasRecoveredWhenItHasEndedAStepThatItBeganSince) {
  const TimesByWorker times{{1, batches({{1.0, 0}, {2.0, 1}})},
                            {2, batches({{1.0, 0}, {2.0, 1}, {3.0, 2}, {4.5, 3}})}};
  EXPECT_THAT(recovery_seconds(times, {{1, 2.5}}), ElementsAre(2.0));
}

TEST(FaultsLog, AStepThatIsTakenAgainHasNotEnded) {
  const TimesByWorker times{{1, batches({{1.0, 0}, {2.0, 1}, {3.0, 1}, {4.0, 2}, {5.0, 3}})}};
  EXPECT_THAT(recovery_seconds(times, {{9, 2.5}}), ElementsAre(1.5));
}

TEST(FaultsLog, TheSlowestOfTheOthersCounts) {
  TimesByWorker times{{1, batches({{1.0, 0}, {2.0, 1}, {3.0, 2}})},
                      {2, batches({{1.0, 0}, {6.0, 1}, {7.0, 2}})}};
  EXPECT_THAT(recovery_seconds(times, {{9, 1.5}}), ElementsAre(5.5));
  times[3] = batches({{4.0, 1}, {9.0, 2}});  // a newcomer
  EXPECT_THAT(recovery_seconds(times, {{9, 1.5}}), ElementsAre(5.5));
  EXPECT_THAT(recovery_seconds(times, {{2, 1.5}, {9, 8.0}}), ElementsAre(1.5));
}

TEST(FaultsLog, StepsAreMadeAgainByWhoGoesBackToACheckpoint) {
  EXPECT_EQ(count_again({{1, batches({{1, 7}, {2, 8}, {3, 8}, {4, 9}})}}, 100), 0);
  EXPECT_EQ(count_again({{1, batches({{1, 7}, {2, 8}, {3, 5}, {4, 6}, {5, 4}})},
                         {2, batches({{1, 7}, {2, 6}})}},
                        100),
            5);
}

TEST(StepTimes, AreThereForWhoeverWatches) {
  const asup::testing::TemporaryFolder folder;
  EXPECT_TRUE(read_step_times(folder.path()).empty());
  EXPECT_TRUE(read_step_times(folder.file("nowhere")).empty());
  StepTimes times(folder.path());
  EXPECT_TRUE(last_step_times(folder.path()).empty());
  const double begun = seconds_of_host();
  times.batch_begins(0.25);
  times.batch_begins(0.5);
  const auto all = read_step_times(folder.path());
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all.at(getpid()).size(), 2u);
  EXPECT_EQ(all.at(getpid())[0].progress, 0.25);
  EXPECT_GE(all.at(getpid())[0].seconds, begun);
  EXPECT_EQ(last_step_times(folder.path()).at(getpid()).progress, 0.5);
}

TEST(StepTimes, HalfOfAnEntryIsLeftOut) {
  const asup::testing::TemporaryFolder folder;
  std::ofstream(folder.file("17")) << std::string(sizeof(BatchBegin) + 3, '\0');
  EXPECT_EQ(read_step_times(folder.path()).at(17).size(), 1u);
  EXPECT_EQ(last_step_times(folder.path()).at(17).progress, 0);
}

TEST(StepTimes, NobodyAskedForAreNotWritten) { StepTimes("").batch_begins(0.5); }

TEST(StepTimes, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(asup::testing::message_of<Error>([] { StepTimes times("/nowhere/at/all"); }),
              ::testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace asup::bench
