#include "asup/collective/algorithms/recursive_doubling.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(RecursiveDoubling, FourRanksSwapSumsByTurnsInScratchAndOutput) {
  const Spec spec = {.ranks = 4, .count = 10};
  const Plan plan = recursive_doubling_all_reduce(1, spec);
  EXPECT_EQ(plan.lanes,
            (std::vector<Lane>{
                {{send(0, in(0, 10)), recv_reduce(0, in(0, 10), scratch(0, 10), false)},
                 {send(3, scratch(0, 10)), recv_reduce(3, scratch(0, 10), out(0, 10), true)}}}))
      << describe(plan);
  EXPECT_EQ(plan.scratch, 10u);
}

TEST(RecursiveDoubling, ASurplusRankFoldsInAndOut) {
  const Spec spec = {.ranks = 3, .count = 10};
  EXPECT_EQ(recursive_doubling_all_reduce(0, spec).lanes,
            (std::vector<Lane>{{{send(1, in(0, 10))}, {recv(1, out(0, 10))}}}));
  EXPECT_EQ(recursive_doubling_all_reduce(1, spec).lanes,
            (std::vector<Lane>{
                {{recv_reduce(0, in(0, 10), scratch(0, 10), false)},
                 {send(2, scratch(0, 10)), recv_reduce(2, scratch(0, 10), out(0, 10), true)},
                 {send(0, out(0, 10))}}}));
}

TEST(RecursiveDoubling, SendsTheWholeLogarithmicallyOften) {
  Spec spec = {.ranks = 8, .count = 1000};
  EXPECT_EQ(elements_sent(recursive_doubling_all_reduce(3, spec)), 3000u);
  EXPECT_EQ(recursive_doubling_all_reduce(3, spec).lanes[0].size(), 4u) << "and a copy, in place";
  spec.slice = 100;
  EXPECT_EQ(recursive_doubling_all_reduce(3, spec).lanes.size(), 4u);
  EXPECT_EQ(elements_sent(recursive_doubling_all_reduce(3, spec)), 3000u);
}

}  // namespace
}  // namespace asup::collective
