#include "asup/collective/algorithms/bruck.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(Bruck, AllGatherAmongFiveInThreeRounds) {
  const Spec spec = {.collective = Collective::all_gather, .ranks = 5, .count = 50};
  EXPECT_EQ(bruck_all_gather(3, spec).lanes,
            (std::vector<Lane>{{{copy(in(0, 10), out(30, 40))},
                                {send(2, out(30, 40)), recv(4, out(40, 50))},
                                {send(1, out(30, 50)), recv(0, out(0, 20))},
                                {send(4, out(30, 40)), recv(2, out(20, 30))}}}));
  EXPECT_EQ(bruck_all_gather(4, spec).lanes[0][2],
            (Round{send(2, out(40, 50)), send(2, out(0, 10)), recv(1, out(10, 30))}))
      << "two messages over the end of the row";
}

TEST(Bruck, AllGatherSendsTheLeastThereIs) {
  for (const int n : {2, 3, 7, 13}) {
    const Spec spec = {.collective = Collective::all_gather, .ranks = n, .count = n * 10u};
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(elements_sent(bruck_all_gather(rank, spec)), (n - 1) * 10u);
    }
  }
}

// Distances 1 and 3 go one place on, then 2 and 3 two places.
TEST(Bruck, AllToAllAmongFourInTwoRounds) {
  const Spec spec = {.collective = Collective::all_to_all, .ranks = 4, .count = 40};
  const Plan plan = bruck_all_to_all(0, spec);
  EXPECT_EQ(plan.lanes,
            (std::vector<Lane>{
                {{copy(in(10, 20), scratch(0, 10)), copy(in(30, 40), scratch(10, 20))},
                 {send(1, scratch(0, 20)), recv(3, scratch(20, 40))},
                 {copy(in(20, 30), scratch(0, 10)), copy(scratch(30, 40), scratch(10, 20))},
                 {send(2, scratch(0, 20)), recv(2, scratch(40, 60))},
                 {copy(in(0, 10), out(0, 10)), copy(scratch(20, 30), out(30, 40)),
                  copy(scratch(40, 50), out(20, 30)), copy(scratch(50, 60), out(10, 20))}}}))
      << describe(plan);
  EXPECT_EQ(plan.scratch, 60u);
}

}  // namespace
}  // namespace asup::collective
