#include "asup/train/stall.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace asup::train {
namespace {

constexpr std::int64_t kSteps = 200;  // so a span has 10

// The first step at which it has stalled, of a loss after each step; 0: never.
template <typename Loss>
std::int64_t stalls_at(const Loss& loss, Stall stall = {}, std::int64_t begin = 0) {
  for (std::int64_t step = begin + 1; step <= kSteps; ++step) {
    stall.add(step, kSteps, loss(step), 24);
    if (stall.stalled()) return step;
  }
  return 0;
}

TEST(Stall, ALossThatFallsDoesNotStall) {
  EXPECT_EQ(stalls_at([](std::int64_t step) { return 1.0 / static_cast<double>(step); }), 0);
}

TEST(Stall, ALossThatStaysHasStalledAfterTheSecondSpan) {
  EXPECT_EQ(stalls_at([](std::int64_t) { return 2.0; }), 20);
}

TEST(Stall, AFlatLossIsSeenAtTheEndOfItsSpan) {
  EXPECT_EQ(stalls_at([](std::int64_t step) {
              return step <= 55 ? 100.0 - static_cast<double>(step) : 45.0;
            }),
            80);
}

// Up and down from step to step, but the mean falls.
TEST(Stall, NoiseIsNoStall) {
  EXPECT_EQ(stalls_at([](std::int64_t step) {
              return (step % 2 ? 1.5 : 0.5) * 300 / (10 + static_cast<double>(step));
            }),
            0);
}

TEST(Stall, RowsOfManyStepsCountBySamples) {
  Stall stall;
  stall.add(8, kSteps, 2, 80);
  stall.add(16, kSteps, 1, 20);   // the mean of the first span is 1.8
  stall.add(32, kSteps, 1.7, 1);  // a span of its own, as long as two
  EXPECT_FALSE(stall.stalled());
  stall.add(42, kSteps, 1.69, 1);
  EXPECT_TRUE(stall.stalled());
  EXPECT_TRUE(Stall::from_json(stall.to_json()).stalled());
  stall.add(52, kSteps, 1, 1);
  EXPECT_TRUE(stall.stalled());
}

TEST(Stall, GoesOnFromACheckpoint) {
  const auto loss = [](std::int64_t step) {
    return step <= 55 ? 100.0 - static_cast<double>(step) : 45.0;
  };
  Stall stall;
  for (std::int64_t step = 1; step <= 63; ++step) stall.add(step, kSteps, loss(step), 24);
  EXPECT_EQ(stalls_at(loss, Stall::from_json(stall.to_json()), 63), 80);
}

}  // namespace
}  // namespace asup::train
