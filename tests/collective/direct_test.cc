#include "asup/collective/direct.h"

#include "asup/collective/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;
using testing::expect_proven;
using testing::expect_proven_for_all_counts;
using testing::group_sizes;

TEST(Direct, TwoRanksReduceEachASlice) {
  const Spec spec = {
      .collective = Collective::all_reduce, .ranks = 2, .count = 100, .shared = true};
  const Plan plan = direct_all_reduce(1, spec);
  ASSERT_EQ(plan.lanes.size(), 1u);
  const Round meet = {send(0, {}), recv(0, {})};
  const Round work = {peer_reduce(in(64, 100), out(64, 100)),
                      peer_write(0, out(64, 100), out(64, 100))};
  EXPECT_EQ(plan.lanes[0], (Lane{meet, work, meet})) << describe(plan);
}

TEST(Direct, IsProven) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast}) {
    for (const int n : group_sizes()) {
      expect_proven_for_all_counts(find_algorithm(collective, "direct"),
                                   {.collective = collective, .ranks = n, .root = n / 2});
    }
  }
}

TEST(Direct, EveryRootIsProven) {
  for (const int n : {2, 3, 8, 13}) {
    for (int root = 0; root < n; ++root) {
      for (const bool in_place : {true, false}) {
        expect_proven(find_algorithm(Collective::broadcast, "direct"),
                      {.collective = Collective::broadcast,
                       .ranks = n,
                       .count = 100,
                       .root = root,
                       .in_place = in_place,
                       .shared = true});
      }
    }
  }
}

TEST(Direct, UnevenBlocksAreProven) {
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
    for (const int n : {2, 3, 7, 32}) {
      Spec spec = {.collective = collective, .ranks = n, .in_place = false, .shared = true};
      for (int r = 0; r < n; ++r) {
        spec.counts.push_back(r % 3 == 1 ? 0 : r * 13 % 40);
        spec.count += spec.counts.back();
      }
      expect_proven(find_algorithm(collective, "direct"), spec);
    }
  }
}

TEST(Direct, SendsSignalsOnly) {
  const Spec spec = {
      .collective = Collective::all_reduce, .ranks = 4, .count = 4096, .shared = true};
  for (auto* plan :
       {direct_all_reduce, direct_reduce_scatter, direct_all_gather, direct_broadcast}) {
    EXPECT_EQ(elements_sent(plan(1, spec)), 0u);
  }
}

TEST(Direct, NeedsSharedMemory) {
  const Spec spec = {
      .collective = Collective::all_reduce, .ranks = 2, .count = 100, .shared = false};
  const auto flaw = verify(find_algorithm(Collective::all_reduce, "direct"), spec);
  ASSERT_TRUE(flaw);
  EXPECT_EQ(flaw->rank, 0);
  EXPECT_EQ(flaw->round, 1);
  EXPECT_EQ(flaw->range, in(0, 64));
}

}  // namespace
}  // namespace asup::collective
