#include "asup/collective/chain.h"

#include "asup/collective/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;
using testing::expect_proven;
using testing::expect_proven_for_all_counts;
using testing::group_sizes;

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

TEST(Chain, IsProven) {
  for (const int n : group_sizes()) {
    expect_proven_for_all_counts(find_algorithm(Collective::broadcast, "chain"),
                                 {.collective = Collective::broadcast, .ranks = n, .root = n / 2});
  }
}

TEST(Chain, EveryRootIsProven) {
  for (const int n : {2, 3, 8, 13, 32}) {
    for (int root = 0; root < n; ++root) {
      expect_proven(find_algorithm(Collective::broadcast, "chain"),
                    {.collective = Collective::broadcast,
                     .ranks = n,
                     .count = 1000,
                     .root = root,
                     .in_place = false,
                     .slice = 64});
    }
  }
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
