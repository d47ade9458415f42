#include "asup/collective/algorithms/chain.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(Chain, AMiddleRankPassesOnOneChunkWhileItReceivesTheNext) {
  const Spec spec = {
      .collective = Collective::broadcast, .ranks = 3, .count = 256, .root = 2, .slice = 64};
  const Plan plan = chain_broadcast(0, spec);
  ASSERT_EQ(plan.lanes.size(), 2u);
  EXPECT_EQ(plan.lanes[1], (Lane{{recv(2, out(128, 192))},
                                 {recv(2, out(192, 256)), send(1, out(128, 192))},
                                 {send(1, out(192, 256))}}))
      << describe(plan);
}

TEST(Chain, AMiddleRankAddsOneChunkWhileItPassesOnTheLast) {
  const Spec spec = {.collective = Collective::reduce, .ranks = 3, .count = 256, .slice = 64};
  const Plan plan = chain_reduce(1, spec);
  ASSERT_EQ(plan.lanes.size(), 2u);
  EXPECT_EQ(plan.lanes[0],
            (Lane{{recv_reduce(2, in(0, 64), scratch(0, 64), false)},
                  {recv_reduce(2, in(64, 128), scratch(64, 128), false), send(0, scratch(0, 64))},
                  {send(0, scratch(64, 128))}}))
      << describe(plan);
  EXPECT_EQ(plan.scratch, 4u * 64);
}

TEST(Chain, EveryRankButTheLastSendsTheWholeOnce) {
  const Spec spec = {
      .collective = Collective::broadcast, .ranks = 4, .count = 1000, .root = 1, .slice = 64};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(elements_sent(chain_broadcast(rank, spec)), rank == 0 ? 0u : 1000u);
  }
}

}  // namespace
}  // namespace asup::collective
