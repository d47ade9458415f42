#include "tests/support/trace.h"

#include <gtest/gtest.h>

#include "asup/collective/verify/verify.h"

namespace asup::testing {

using collective::TraceEvent;

collective::TraceSink TraceBook::sink(int rank) {
  return [this, rank](const TraceEvent& event) {
    const std::lock_guard lock(mutex_);
    Executed& executed = calls_[{event.communicator, event.sequence}][rank];
    switch (event.kind) {
      case TraceEvent::Kind::begin:
        executed.spec = *event.spec;
        executed.plan = *event.plan;
        break;
      case TraceEvent::Kind::step:
        executed.steps.push_back(event);
        break;
      case TraceEvent::Kind::encode:
        break;
      case TraceEvent::Kind::end:
        executed.ended = true;
        break;
    }
  };
}

void TraceBook::expect_every_step_once(const Executed& executed) {
  EXPECT_TRUE(executed.ended);
  std::vector<std::pair<int, int>> next(executed.plan.lanes.size());  // round, step
  std::size_t steps = 0;
  for (const TraceEvent& event : executed.steps) {
    auto& [round, step] = next[static_cast<std::size_t>(event.lane)];
    const auto& lane = executed.plan.lanes[static_cast<std::size_t>(event.lane)];
    while (static_cast<std::size_t>(step) == lane[static_cast<std::size_t>(round)].size()) {
      ++round;
      step = 0;
    }
    EXPECT_EQ(event.round, round);
    EXPECT_EQ(event.step, step);
    ++step;
    ++steps;
  }
  std::size_t planned = 0;
  for (const auto& lane : executed.plan.lanes)
    for (const auto& round : lane) planned += round.size();
  EXPECT_EQ(steps, planned);
}

int TraceBook::expect_verified() {
  for (const auto& [id, by_rank] : calls_) {
    EXPECT_EQ(by_rank.size(), static_cast<std::size_t>(ranks_));
    std::vector<collective::Plan> plans;
    for (const auto& [rank, executed] : by_rank) {
      expect_every_step_once(executed);
      plans.push_back(executed.plan);
    }
    const auto flaw = collective::verify(by_rank.begin()->second.spec, plans);
    EXPECT_FALSE(flaw) << collective::describe(*flaw);
  }
  return static_cast<int>(calls_.size());
}

}  // namespace asup::testing
