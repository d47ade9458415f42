#include "asup/collective/algorithms/pairwise.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

TEST(Pairwise, ThreeRanks) {
  const Spec spec = {.collective = Collective::all_to_all, .ranks = 3, .count = 30};
  EXPECT_EQ(pairwise_all_to_all(1, spec).lanes,
            (std::vector<Lane>{{{copy(in(10, 20), out(10, 20))},
                                {send(2, in(20, 30)), recv(0, out(0, 10))},
                                {send(0, in(0, 10)), recv(2, out(20, 30))}}}));
}

TEST(Pairwise, RanksAgreeOnLanesWhereBlocksAreUneven) {
  // One block of several slices; the others are empty.
  const Spec spec = {.collective = Collective::all_to_all,
                     .ranks = 2,
                     .count = 300,
                     .counts = {0, 300, 0, 0},
                     .slice = 100};
  for (const int rank : {0, 1}) EXPECT_EQ(pairwise_all_to_all(rank, spec).lanes.size(), 3u);
  testing::expect_proven(find_algorithm(Collective::all_to_all, "pairwise"), spec);
}

}  // namespace
}  // namespace asup::collective
