#include "asup/gossip/dealt_samples.h"

#include <gtest/gtest.h>

namespace asup::gossip {
namespace {

TEST(DealtSamples, AreDealtInOrderAndOnce) {
  DealtSamples samples(100);
  EXPECT_EQ(samples.deal(0, 8, 120), (SampleRun{100, 108}));
  EXPECT_EQ(samples.deal(1, 8, 120), (SampleRun{108, 116}));
  samples.finish(0, 8);
  EXPECT_EQ(samples.deal(0, 8, 120), (SampleRun{116, 120}));
  EXPECT_EQ(samples.dealt(), 120u);
  EXPECT_EQ(samples.deal(2, 8, 120), std::nullopt);
  EXPECT_EQ(samples.deal(2, 8, 240), (SampleRun{120, 128}));
  samples.finish(0, 4);
  EXPECT_EQ(samples.finished_by(0), 12u);
  EXPECT_EQ(samples.finished_by(1), 0u);
}

TEST(DealtSamples, WhoWantsNoneGetsNone) {
  DealtSamples samples;
  EXPECT_FALSE(samples.deal(1, 0, 100));
}

TEST(DealtSamples, LeaveNoneAlone) {
  DealtSamples samples;
  EXPECT_EQ(samples.deal(0, 4, 9), (SampleRun{0, 4}));
  EXPECT_EQ(samples.deal(0, 4, 9), (SampleRun{4, 9}));
}

TEST(DealtSamples, OfALostWorkerGoToTheOthers) {
  DealtSamples samples;
  samples.deal(0, 10, 40);
  samples.deal(1, 10, 40);
  samples.deal(2, 10, 40);
  samples.finish(0, 10);
  samples.lose(0);  // had none
  samples.lose(1);
  samples.lose(1);
  EXPECT_EQ(samples.dealt(), 10u);
  EXPECT_EQ(samples.deal(2, 6, 40), (SampleRun{10, 16}));
  EXPECT_EQ(samples.deal(3, 6, 40), (SampleRun{16, 20}));
  EXPECT_EQ(samples.deal(3, 6, 40), (SampleRun{30, 36}));
  EXPECT_EQ(samples.finished_by(0), 10u);
}

TEST(DealtSamples, GoOnFromWhatIsFinished) {
  DealtSamples samples(10, {{30, 40}, {10, 20}, {0, 5}, {40, 44}});
  EXPECT_EQ(samples.dealt(), 20u);
  EXPECT_EQ(samples.deal(0, 20, 100), (SampleRun{20, 30}));
  EXPECT_EQ(samples.dealt(), 44u);
  EXPECT_EQ(samples.deal(0, 20, 100), (SampleRun{44, 64}));
}

// Who missed a sync point asks for samples before it.
TEST(DealtSamples, NoneBeyondTheLimit) {
  DealtSamples samples;
  samples.deal(0, 10, 100);
  samples.lose(0);
  EXPECT_EQ(samples.deal(1, 10, 4), (SampleRun{0, 4}));
  EXPECT_EQ(samples.deal(1, 10, 4), std::nullopt);
}

TEST(DealtSamples, AheadThereAreNoneBeforeAWorkerHasShownItsSpeed) {
  DealtSamples samples;
  EXPECT_EQ(samples.deal_ahead(0, 10, 3, 1000, 2), std::nullopt);
  EXPECT_EQ(samples.deal(0, 10, 1000), (SampleRun{0, 10}));
  samples.deal(1, 10, 1000);
  samples.finish(0, 10);
  EXPECT_EQ(samples.deal_ahead(1, 10, 3, 1000, 2), std::nullopt);
  EXPECT_EQ(samples.deal_ahead(0, 10, 3, 1000, 2), (SampleRun{20, 50}));
}

// Half of its part of what is left: an even one, or that of a worker that has done one in ten.
TEST(DealtSamples, AheadASlowWorkerGetsFewer) {
  DealtSamples samples;
  samples.deal(0, 90, 1100);
  samples.finish(0, 90);
  samples.deal(1, 10, 1100);
  samples.finish(1, 10);
  EXPECT_EQ(samples.deal_ahead(1, 10, 100, 1100, 2), (SampleRun{100, 150}));
  EXPECT_EQ(samples.deal_ahead(1, 10, 100, 1100, 2), std::nullopt);  // it has those
  EXPECT_EQ(samples.deal_ahead(0, 10, 100, 1100, 2), (SampleRun{150, 380}));
}

TEST(DealtSamples, AheadThereAreNoneNearTheLimit) {
  DealtSamples samples;
  samples.deal(0, 10, 50);
  samples.finish(0, 10);
  EXPECT_EQ(samples.deal_ahead(0, 10, 9, 50, 1), (SampleRun{10, 30}));
  EXPECT_EQ(samples.deal_ahead(0, 10, 9, 50, 1), std::nullopt);
  samples.finish(0, 20);
  EXPECT_EQ(samples.deal_ahead(0, 10, 9, 50, 1), (SampleRun{30, 40}));
  samples.finish(0, 10);
  EXPECT_EQ(samples.deal_ahead(0, 10, 9, 50, 1), std::nullopt);
  EXPECT_EQ(samples.deal(0, 10, 50), (SampleRun{40, 50}));
}

TEST(DealtSamples, OfALostWorkerThatHasSomeAheadTheUndoneGoToTheOthers) {
  DealtSamples samples;
  samples.deal(0, 10, 1000);
  samples.finish(0, 10);
  samples.deal(0, 10, 1000);
  samples.deal_ahead(0, 10, 2, 1000, 1);
  samples.finish(0, 15);
  samples.lose(0);
  EXPECT_EQ(samples.finished_by(0), 25u);
  EXPECT_EQ(samples.dealt(), 25u);
  EXPECT_EQ(samples.deal_ahead(0, 10, 2, 1000, 1), std::nullopt);  // these go first
  EXPECT_EQ(samples.deal(1, 10, 1000), (SampleRun{25, 35}));
  EXPECT_EQ(samples.deal(1, 10, 1000), (SampleRun{35, 40}));
  EXPECT_EQ(samples.deal(1, 10, 1000), (SampleRun{40, 50}));
}

}  // namespace
}  // namespace asup::gossip
