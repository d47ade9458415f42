#include "asup/collective/algorithms/direct.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

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

TEST(Direct, EveryRankReducesASliceForTheRoot) {
  const Spec spec = {.collective = Collective::reduce, .ranks = 2, .count = 100, .shared = true};
  const Round meet = {send(0, {}), recv(0, {})};
  EXPECT_EQ(direct_reduce(1, spec).lanes,
            (std::vector<Lane>{{meet,
                                {peer_reduce(in(64, 100), scratch(0, 36)),
                                 peer_write(0, scratch(0, 36), out(64, 100))},
                                meet}}));
  EXPECT_EQ(direct_reduce(1, spec).scratch, 36u);
}

TEST(Direct, OnlyTheRootIsMetWhereOnlyItsMemoryIsReached) {
  Spec spec = {
      .collective = Collective::gather, .ranks = 3, .count = 30, .root = 2, .shared = true};
  EXPECT_EQ(
      direct_gather(1, spec).lanes,
      (std::vector<Lane>{{{recv(2, {})}, {peer_write(2, in(0, 10), out(10, 20))}, {send(2, {})}}}));
  spec.collective = Collective::scatter;
  EXPECT_EQ(
      direct_scatter(1, spec).lanes,
      (std::vector<Lane>{{{recv(2, {})}, {peer_read(2, in(10, 20), out(0, 10))}, {send(2, {})}}}));
}

TEST(Direct, SendsSignalsOnly) {
  const Spec spec = {
      .collective = Collective::all_reduce, .ranks = 4, .count = 4096, .shared = true};
  for (auto* plan : {direct_all_reduce, direct_reduce_scatter, direct_all_gather, direct_broadcast,
                     direct_reduce, direct_gather, direct_scatter, direct_all_to_all}) {
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
