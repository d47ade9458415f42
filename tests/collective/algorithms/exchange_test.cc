#include "asup/collective/algorithms/exchange.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(Exchange, ThreeRanksSendAllToAllAndEachAddsUp) {
  const Spec spec = {.ranks = 3, .count = 10};
  const Plan plan = exchange_all_reduce(1, spec);
  EXPECT_EQ(plan.lanes,
            (std::vector<Lane>{{{send(2, in(0, 10)), send(0, in(0, 10)), recv(0, scratch(0, 10)),
                                 recv(2, scratch(10, 20))},
                                {reduce_parts(scratch(0, 20), in(0, 10), out(0, 10))}}}))
      << describe(plan);
  EXPECT_EQ(plan.scratch, 20u);
}

TEST(Exchange, TwoRanksNeedOneOthersPart) {
  const Spec spec = {.ranks = 2, .count = 10, .in_place = false};
  EXPECT_EQ(exchange_all_reduce(0, spec).lanes,
            (std::vector<Lane>{{{send(1, in(0, 10)), recv(1, scratch(0, 10))},
                                {reduce_parts(scratch(0, 10), in(0, 10), out(0, 10))}}}));
}

TEST(Exchange, SendsTheWholeToEveryOther) {
  const Spec spec = {.ranks = 8, .count = 1000};
  const Plan plan = exchange_all_reduce(3, spec);
  EXPECT_EQ(elements_sent(plan), 7000u);
  EXPECT_EQ(plan.lanes[0].size(), 2u);
  EXPECT_EQ(plan.scratch, 7000u);
}

TEST(Exchange, ScratchIsForAPieceOfEachOther) {
  const Spec spec = {.ranks = 4, .count = 1000, .slice = 128};  // eight pieces
  const Plan plan = exchange_all_reduce(3, spec);
  EXPECT_EQ(elements_sent(plan), 3000u);
  EXPECT_EQ(plan.lanes.size(), 1u);
  EXPECT_EQ(plan.lanes[0].size(), 16u);
  EXPECT_EQ(plan.scratch, 3 * 128u);
}

}  // namespace
}  // namespace asup::collective
