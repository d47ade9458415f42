#include "asup/collective/direct.h"

#include "asup/collective/build.h"
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
