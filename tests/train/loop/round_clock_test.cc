#include "asup/train/loop/round_clock.h"

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
  EXPECT_EQ(clock.fit(100), 100u);
  clock.require_longer_than(milliseconds(1000000));
}

TEST(RoundClock, MeasuresAFewSteps) {
  RoundClock clock{Seconds(1000000)};
  clock.begin_round();
  for (const double seconds : {3.0, 1.0, 2.0}) {
    EXPECT_FALSE(clock.measured());
    EXPECT_EQ(clock.shortest_step(), milliseconds(0));
    clock.stepped(seconds);
  }
  EXPECT_TRUE(clock.measured());
  EXPECT_EQ(clock.shortest_step(), milliseconds(1000));
  EXPECT_FALSE(clock.over());
  clock.stepped(5000000);  // not even a last portion of such a step ends in time
  EXPECT_TRUE(clock.over());
}

TEST(RoundClock, ALastPortionFitsIntoTheRound) {
  RoundClock clock{Seconds(1000000)};
  clock.begin_round();
  for (int i = 0; i < 3; ++i) {
    clock.stepped(2000000);
    EXPECT_EQ(clock.fit(100), i < 2 ? 100u : 50u);  // not before it is measured
  }
  EXPECT_FALSE(clock.over());
  clock.stepped(4001000);
  EXPECT_EQ(clock.fit(100), 25u);  // never less
  EXPECT_TRUE(clock.over());
  EXPECT_EQ(clock.fit(1), 1u);
  EXPECT_EQ(clock.fit(4), 2u);  // one sample has no statistics
  clock.stepped(1, 0.1);        // too little to tell
  EXPECT_TRUE(clock.over());
  clock.stepped(500000, 0.5);  // a portion tells how long a step takes too
  EXPECT_EQ(clock.fit(100), 100u);
  EXPECT_FALSE(clock.over());
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

TEST(RoundClock, StepsAheadAreOfSomeSecondsAndEndInTheRound) {
  RoundClock endless{Seconds(0)};
  EXPECT_EQ(endless.steps_ahead(), 0u);
  endless.stepped(0.25);
  EXPECT_EQ(endless.steps_ahead(), 12u);
  endless.stepped(100);
  EXPECT_EQ(endless.steps_ahead(), 2u);

  RoundClock clock{Seconds(1000000)};
  clock.begin_round();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(clock.steps_ahead(), 0u);
    clock.stepped(1000);
  }
  EXPECT_EQ(clock.steps_ahead(), 2u);
  clock.stepped(300000);
  EXPECT_EQ(clock.steps_ahead(), 0u);
}

}  // namespace
}  // namespace asup::train
