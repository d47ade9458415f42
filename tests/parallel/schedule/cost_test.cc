#include "asup/parallel/schedule/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/parallel/schedule/cases.h"

namespace asup::parallel {
namespace {

using ::testing::HasSubstr;
using testing::spec_of;
using ::testing::ThrowsMessage;

struct Priced {
  Priced(const char* name, int ranks, int micro_batches, int chunks = 0)
      : row(find_schedule(name)),
        spec(spec_of(row, ranks, micro_batches, chunks)),
        times(equal_times({}, spec)) {}

  Price price() const { return parallel::price(spec, schedules_of(row, spec), times); }

  const PipelineSchedule& row;
  PipelineSpec spec;
  PipelineTimes times;
};

TEST(Cost, BubblesOfEqualStagesAreTheClosedForms) {
  for (int p = 1; p <= 16; ++p)
    for (int m = 1; m <= 64; m += 3) {
      const double one = (p - 1.0) / (m + p - 1);
      EXPECT_NEAR(Priced("1f1b", p, m).price().bubble(), one, 1e-9) << p << " " << m;
      EXPECT_NEAR(Priced("gpipe", p, m).price().bubble(), one, 1e-9) << p << " " << m;
    }
}

// The paper's form, where micro-batches are a multiple of the ranks.
TEST(Cost, InterleavingDividesTheBubbleByTheChunks) {
  for (int p = 1; p <= 8; ++p)
    for (int v = 2; v <= 4; ++v)
      for (int m = p; m <= 32; m += p)
        EXPECT_NEAR(Priced("interleaved", p, m, v).price().bubble(), (p - 1.0) / (v * m + p - 1),
                    1e-9)
            << p << " " << v << " " << m;
}

// With F = B = W, p - 1 of 3m + p - 1: a third of 1F1B's bubble is left.
TEST(Cost, SplittingBackwardLeavesAThirdOfTheBubble) {
  for (int p = 1; p <= 16; ++p)
    for (int m = p; m <= 64; m += 3)
      EXPECT_NEAR(Priced("zb1p", p, m).price().makespan, 3.0 * m + p - 1, 1e-9) << p << " " << m;
}

TEST(Cost, AVLeavesHalfOfThat) {
  for (int p = 1; p <= 16; ++p)
    for (int m = 2 * p - 1; m <= 64; m += 3)
      EXPECT_NEAR(Priced("zbv", p, m).price().makespan, 3.0 * m + (p - 1) / 2.0, 1e-9)
          << p << " " << m;
}

TEST(Cost, SpeedUpsOverOneRank) {
  EXPECT_NEAR(Priced("1f1b", 2, 8).price().speedup(), 1.78, 0.005);
  EXPECT_NEAR(Priced("zb1p", 2, 8).price().speedup(), 1.92, 0.005);
  EXPECT_NEAR(Priced("1f1b", 4, 8).price().makespan / Priced("zb1p", 4, 8).price().makespan, 1.22,
              0.005);
}

TEST(Cost, TheSlowestStageSetsThePace) {
  Priced c("1f1b", 2, 10);
  c.times.stages[1] = {.forward = 2, .backward = 4, .backward_input = 2, .backward_weight = 2};
  const Price priced = c.price();
  // All of it on rank 1, the first forward and the last backward of the other.
  EXPECT_NEAR(priced.makespan, 10 * 6 + 3, 1e-9);
  EXPECT_NEAR(priced.bubble(1), 1 - 60.0 / 63, 1e-9);
  EXPECT_NEAR(priced.bubble(0), 1 - 30.0 / 63, 1e-9);
  EXPECT_NEAR(priced.bubble(), 1 - 90.0 / (2 * 63), 1e-9);
}

TEST(Cost, ASlowRankIsASlowStage) {
  Priced slow("1f1b", 3, 10), stage("1f1b", 3, 10);
  slow.times.speeds = {1, 0.5, 1};
  stage.times.stages[1] = {.forward = 2, .backward = 4};
  EXPECT_EQ(slow.price().makespan, stage.price().makespan);
  EXPECT_NEAR(slow.price().alone, 90, 1e-9);  // on the fastest
}

TEST(Cost, MessagesTakeTimeWhereTheyAreWaitedFor) {
  Priced c("1f1b", 2, 1);
  c.times.latency = 0.25;
  c.times.transfer = {0.5};
  EXPECT_NEAR(c.price().makespan, 2 * 3 + 2 * 0.75, 1e-9);
  // Two forwards leave while the first is under way; messages of one direction take turns.
  Priced gpipe("gpipe", 2, 3);
  gpipe.times.transfer = {2};
  const Price priced = gpipe.price();
  std::vector<double> arrivals;
  for (const TimedAction& timed : priced.ranks[1])
    if (timed.action.op == Action::Op::recv_activation) arrivals.push_back(timed.end);
  EXPECT_THAT(arrivals, ::testing::ElementsAre(3, 5, 7));
}

TEST(Cost, TellsWhenEachActionIs) {
  const Price priced = Priced("1f1b", 2, 2).price();
  ASSERT_EQ(priced.ranks[1].size(), 8u);
  const TimedAction& recv = priced.ranks[1][0];
  const TimedAction& back = priced.ranks[1][2];
  EXPECT_EQ(recv.action, (Action{Action::Op::recv_activation, 1, 0}));
  EXPECT_EQ(recv.begin, 0);
  EXPECT_EQ(recv.end, 1);
  EXPECT_EQ(back.action, (Action{Action::Op::backward, 1, 0}));
  EXPECT_EQ(back.begin, 2);
  EXPECT_EQ(back.end, 4);
  EXPECT_THAT(priced.activations, ::testing::ElementsAre(2, 1));
}

TEST(Cost, RefusesTimesThatAreNone) {
  Priced c("1f1b", 2, 2);
  c.times.speeds = {1, 0};
  EXPECT_THAT([&] { c.price(); }, ThrowsMessage<BadInput>(HasSubstr("a rank of speed 0")));
  c.times.speeds = {1};
  EXPECT_THAT([&] { c.price(); }, ThrowsMessage<BadInput>("speeds of 1 ranks for a pipeline of 2"));
  c.times.speeds = {};
  c.times.latency = -1;
  EXPECT_THAT([&] { c.price(); }, ThrowsMessage<BadInput>(HasSubstr("link latency -1")));
  c.times.latency = 0;
  c.times.stages.pop_back();
  EXPECT_THAT([&] { c.price(); }, ThrowsMessage<BadInput>("times of 1 stages for a pipeline of 2"));
}

TEST(Cost, OfSchedulesThatWaitForEverSaysWhere) {
  const Priced c("1f1b", 2, 1);
  auto schedules = schedules_of(c.row, c.spec);
  std::erase(schedules[0], Action{Action::Op::send_activation, 0, 0});
  EXPECT_THAT([&] { price(c.spec, schedules, c.times); }, ThrowsMessage<Error>(HasSubstr("recv_")));
}

}  // namespace
}  // namespace asup::parallel
