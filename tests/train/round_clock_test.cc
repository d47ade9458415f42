#include "asup/train/round_clock.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"

namespace asup::train {
namespace {

using std::chrono::milliseconds;

TEST(RoundClock, WithoutATimeNoRoundIsOver) {
  RoundClock clock{Seconds(0)};
  clock.begin_round();
  EXPECT_TRUE(clock.measured());
  clock.stepped(1000);
  EXPECT_FALSE(clock.over());
  clock.require_longer_than(milliseconds(1000000));
}

TEST(RoundClock, MeasuresAFewSteps) {
  RoundClock clock{Seconds(1000000)};
  clock.begin_round();
  EXPECT_EQ(clock.shortest_step(), milliseconds(0));
  for (const double seconds : {3.0, 1.0, 2.0}) {
    EXPECT_FALSE(clock.measured());
    clock.stepped(seconds);
  }
  EXPECT_TRUE(clock.measured());
  EXPECT_EQ(clock.shortest_step(), milliseconds(1000));
  EXPECT_FALSE(clock.over());
  clock.stepped(1000001);  // another such step takes more time than there is
  EXPECT_TRUE(clock.over());
}

TEST(RoundClock, RefusesRoundsShorterThanAStep) {
  const RoundClock clock{Seconds(0.5)};
  clock.require_longer_than(milliseconds(400));
  try {
    clock.require_longer_than(milliseconds(600));
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("round-seconds = 0.5 is shorter than a step, "
                                                    "which takes 0.6 s on the slowest worker"));
  }
}

}  // namespace
}  // namespace asup::train
