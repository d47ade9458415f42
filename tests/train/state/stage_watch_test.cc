#include "asup/train/state/stage_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

using ::testing::ElementsAre;

// Layers that take three seconds each.
CutStages cut_of(const std::vector<int>& layers, int all) {
  CutStages cut{layers, {.layers = {}, .ranks = {{}}, .links = {}}};
  for (int i = 0; i < all; ++i) cut.problem.layers.push_back({.name = "", .times = {1, 2, 1, 1}});
  return cut;
}

const parallel::PipelineSchedule& schedule() { return parallel::find_schedule("1f1b"); }

parallel::PipelineSpec spec_of(int ranks) {
  return {.ranks = ranks, .micro_batches = 4, .placement = schedule().placement};
}

TEST(StageWatch, SpeedsAreThoseOfTheSlowestWorkerOfAStage) {
  const parallel::GridShape shape{.data = 2, .pipeline = 2};
  const auto problem = at_speeds_of(cut_of({4, 2}, 6), {12, 24, 3, 2}, shape,
                                    spec_of(2));  // ranks 0 and 1 are first
  ASSERT_EQ(problem.ranks.size(), 2U);
  EXPECT_EQ(problem.ranks[0].speed, 0.5);
  EXPECT_EQ(problem.ranks[1].speed, 2);
}

// Of 4 micro-batches a step; the stats go on from look to look.
struct Watched {
  explicit Watched(Job& job) : all(make_communicator(job)), rank(job.rank()) {}

  // A step in which a layer took so many times as long as when it was measured, on each rank.
  bool changes(const std::vector<double>& slowness) {
    ++stats.steps;
    const auto own = static_cast<std::size_t>(rank);
    stats.compute_seconds += 4 * 3 * now.layers[own] * slowness[own];
    const auto change = watch.look(*all, stats, now, {.pipeline = 2}, schedule(), spec_of(2));
    if (change) now = change->to;
    return change.has_value();
  }

  std::unique_ptr<Communicator> all;
  int rank;
  parallel::PipelineStats stats{.steps = 7, .compute_seconds = 1000};
  StageWatch watch{stats};
  CutStages now = cut_of({3, 3}, 6);
};

TEST(StageWatch, ChangesWhatIsWorthItTwiceInARow) {
  testing::run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    Watched watched(job);
    EXPECT_FALSE(watched.changes({1, 1}));
    EXPECT_FALSE(watched.changes({1, 5}));
    EXPECT_FALSE(watched.changes({1, 1}));
    EXPECT_FALSE(watched.changes({1, 5}));
    EXPECT_TRUE(watched.changes({1, 5}));
    EXPECT_THAT(watched.now.layers, ElementsAre(5, 1));
    EXPECT_NEAR(watched.now.problem.ranks[1].speed, 0.2, 1e-9);
    // Another cut would be better by less than a tenth, or by nothing.
    EXPECT_FALSE(watched.changes({1, 5}));
    EXPECT_FALSE(watched.changes({1, 5.2}));
    EXPECT_FALSE(watched.changes({1, 5.2}));
    // And back.
    EXPECT_FALSE(watched.changes({1, 1}));
    EXPECT_TRUE(watched.changes({1, 1}));
    EXPECT_THAT(watched.now.layers, ElementsAre(3, 3));
  });
}

TEST(StageWatch, WhereNothingWasComputedNothingChanges) {
  testing::run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    Watched watched(job);
    EXPECT_FALSE(watched.watch.look(*watched.all, watched.stats, watched.now, {.pipeline = 2},
                                    schedule(), spec_of(2)));
  });
}

}  // namespace
}  // namespace asup::train
