// What holds for every row of the table; a new one is taken in by itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "asup/parallel/schedule/cost.h"
#include "asup/parallel/schedule/verify.h"
#include "tests/parallel/schedule/cases.h"

namespace asup::parallel {
namespace {

using testing::activations_of;
using testing::for_each_case;

std::string where(const PipelineSchedule& schedule, const PipelineSpec& spec) {
  return fmt::format("{}, {} ranks, {} chunks, {} micro-batches", schedule.name, spec.ranks,
                     spec.chunks, spec.micro_batches);
}

TEST(EverySchedule, IsProvenUpTo16RanksAnd64MicroBatches) {
  int cases = 0;
  for_each_case(16, 64, [&](const PipelineSchedule& schedule, const PipelineSpec& spec) {
    require_valid(schedule, spec);
    ASSERT_NO_THROW(verified_schedules(schedule, spec)) << where(schedule, spec);
    ++cases;
  });
  EXPECT_GE(cases, 5 * 16 * 64);
}

// The bound is one, and no larger than it need be.
TEST(EverySchedule, HoldsAsManyActivationsAsItSays) {
  for_each_case(16, 20, [&](const PipelineSchedule& schedule, const PipelineSpec& spec) {
    const Price priced = price(spec, schedules_of(schedule, spec), equal_times({}, spec));
    ASSERT_EQ(priced.activations, activations_of(schedule, spec)) << where(schedule, spec);
  });
}

// Gradients of micro-batches are then added up in one order, so that all schedules give the same
// bits.
TEST(EverySchedule, ComputesMicroBatchesInTheirOrder) {
  for_each_case(9, 20, [&](const PipelineSchedule& schedule, const PipelineSpec& spec) {
    std::map<std::pair<int, Action::Op>, int> next;
    for (int rank = 0; rank < spec.ranks; ++rank)
      for (const Action& action : schedule.computations(rank, spec))
        ASSERT_EQ((next[{action.stage, action.op}]++), action.micro_batch) << where(schedule, spec);
  });
}

TEST(EverySchedule, SplitsBackwardWhereItSaysSo) {
  for_each_case(4, 5, [&](const PipelineSchedule& schedule, const PipelineSpec& spec) {
    for (int rank = 0; rank < spec.ranks; ++rank)
      for (const Action& action : schedule.computations(rank, spec))
        ASSERT_NE(action.op,
                  schedule.splits_backward ? Action::Op::backward : Action::Op::backward_input);
  });
}

// No other order could take less: a rank's own work, and the way to it and back.
TEST(EverySchedule, TakesNoLessThanItsWorkAndNoMoreThanAllInTurn) {
  for_each_case(8, 20, [&](const PipelineSchedule& schedule, const PipelineSpec& spec) {
    const Price priced = price(spec, schedules_of(schedule, spec), equal_times({}, spec));
    const double work = 3.0 * spec.micro_batches;
    ASSERT_GE(priced.makespan, work - 1e-9) << where(schedule, spec);
    ASSERT_LE(priced.makespan, work + 3.0 * (spec.ranks - 1) + 1e-9) << where(schedule, spec);
    ASSERT_GE(priced.bubble(), -1e-9);
  });
}

// The strictest way to send, which needs nothing beside the computation, is enough for these.
TEST(EverySchedule, OfOneStageARankNeedsNoSendsBesideComputation) {
  for_each_case(16, 20, [&](const PipelineSchedule& schedule, const PipelineSpec& spec) {
    if (spec.chunks > 1) return;
    const auto flaw = verify(spec, schedules_of(schedule, spec), {}, Sending::blocking);
    ASSERT_FALSE(flaw) << where(schedule, spec) << ": " << flaw->what;
  });
}

}  // namespace
}  // namespace asup::parallel
