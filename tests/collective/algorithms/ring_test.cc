#include "asup/collective/algorithms/ring.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(Ring, ThreeRanksReduceAndGather) {
  const Spec spec = {.collective = Collective::all_reduce, .ranks = 3, .count = 192};
  const AreaRange block0 = out(0, 64), block1 = out(64, 128), block2 = out(128, 192);
  const Plan plan = ring_all_reduce(0, spec);
  ASSERT_EQ(plan.lanes.size(), 1u);
  const Lane expected = {
      {send(1, in(0, 64)), recv_reduce(2, in(128, 192), block2, false)},
      {send(1, block2), recv_reduce(2, in(64, 128), block1, true)},
      {send(1, block1), recv(2, block0)},
      {send(1, block0), recv(2, block2)},
  };
  EXPECT_EQ(plan.lanes[0], expected) << describe(plan);
  EXPECT_EQ(plan.scratch, 0u);
}

TEST(Ring, SendsTheLeastThereIs) {
  for (const int n : {2, 3, 8}) {
    const std::size_t block = 64 * 10, count = block * n;
    Spec spec = {.collective = Collective::all_reduce, .ranks = n, .count = count, .slice = 100};
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(elements_sent(ring_all_reduce(rank, spec)), 2 * (n - 1) * block);
      EXPECT_EQ(elements_sent(ring_reduce_scatter(rank, spec)), (n - 1) * block);
      EXPECT_EQ(elements_sent(ring_all_gather(rank, spec)), (n - 1) * block);
    }
  }
}

TEST(Ring, LanesBringMessagesDownToASlice) {
  Spec spec = {.collective = Collective::all_reduce, .ranks = 4, .slice = 1024};
  spec.count = 4 * 1024;
  EXPECT_EQ(ring_all_reduce(0, spec).lanes.size(), 1u);
  spec.count = 4 * 3 * 1024;
  const Plan three = ring_all_reduce(0, spec);
  EXPECT_EQ(three.lanes.size(), 3u);
  for (const Lane& lane : three.lanes) {
    EXPECT_EQ(lane.size(), 6u);
    for (const Round& round : lane) EXPECT_NEAR(round[0].src.size(), 1024, 64);
  }
  spec.count = 4 * 40 * 1024;
  const Plan four = ring_all_reduce(0, spec);
  EXPECT_EQ(four.lanes.size(), 4u);
  for (const Lane& lane : four.lanes) {
    EXPECT_EQ(lane.size(), 10u * 6);  // ten pieces, one after the other
    for (const Round& round : lane) EXPECT_NEAR(round[0].src.size(), 1024, 64);
  }
}

TEST(Ring, MeetsEvenWithoutElements) {
  const Plan plan = ring_all_reduce(0, {.collective = Collective::all_reduce, .ranks = 4});
  ASSERT_EQ(plan.lanes.size(), 1u);
  EXPECT_EQ(plan.lanes[0].size(), 6u);
}

TEST(Ring, ScratchIsTwoBlocks) {
  Spec spec = {.collective = Collective::reduce_scatter, .ranks = 2, .count = 1000};
  EXPECT_EQ(ring_reduce_scatter(0, spec).scratch, 0u);
  spec.ranks = 3;
  EXPECT_EQ(ring_reduce_scatter(0, spec).scratch, 334u);
  spec.ranks = 4;
  EXPECT_EQ(ring_reduce_scatter(0, spec).scratch, 500u);
  spec.slice = 100;
  EXPECT_EQ(ring_reduce_scatter(0, spec).scratch, 500u);
}

TEST(Ring, AGroupOfOneCopiesOnlyWhereItMust) {
  Spec spec = {.collective = Collective::all_reduce, .ranks = 1, .count = 5, .in_place = true};
  EXPECT_TRUE(ring_all_reduce(0, spec).lanes.empty());
  spec.in_place = false;
  EXPECT_EQ(ring_all_reduce(0, spec).lanes, (std::vector<Lane>{{{copy(in(0, 5), out(0, 5))}}}));
}

}  // namespace
}  // namespace asup::collective
