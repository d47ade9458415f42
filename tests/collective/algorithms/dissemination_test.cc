#include "asup/collective/algorithms/dissemination.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

TEST(Dissemination, FiveRanksInThreeRounds) {
  const Plan plan = dissemination_barrier(1, {.collective = Collective::barrier, .ranks = 5});
  EXPECT_EQ(plan.lanes, (std::vector<Lane>{{{send(2, {}), recv(0, {})},
                                            {send(3, {}), recv(4, {})},
                                            {send(0, {}), recv(2, {})}}}));
}

TEST(Dissemination, OneRoundLessIsNoBarrier) {
  for (const int n : {2, 3, 5, 8, 9, 33}) {
    const Spec spec = {.collective = Collective::barrier, .ranks = n};
    auto plans = testing::plans_of(find_algorithm(Collective::barrier, "dissemination"), spec);
    for (Plan& plan : plans) plan.lanes[0].pop_back();
    const auto flaw = verify(spec, plans);
    ASSERT_TRUE(flaw);
    EXPECT_EQ(flaw->rank, 0);
    EXPECT_EQ(flaw->what, "leaves the barrier without having heard from rank 1");
  }
}

}  // namespace
}  // namespace asup::collective
