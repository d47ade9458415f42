#include "asup/collective/algorithms/halving_doubling.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(HalvingDoubling, FourRanksHalveAndDouble) {
  const Spec spec = {.ranks = 4, .count = 256};
  EXPECT_EQ(halving_doubling_all_reduce(1, spec).lanes,
            (std::vector<Lane>{
                {{send(0, in(0, 128)), recv_reduce(0, in(128, 256), out(128, 256), false)},
                 {send(3, out(192, 256)), recv_reduce(3, out(128, 192), out(128, 192), true)},
                 {send(3, out(128, 192)), recv(3, out(192, 256))},
                 {send(0, out(128, 256)), recv(0, out(0, 128))}}}));
}

TEST(HalvingDoubling, ReduceScatterEndsWithOnesOwnBlock) {
  const Spec spec = {.collective = Collective::reduce_scatter, .ranks = 4, .count = 40};
  const Plan plan = halving_reduce_scatter(1, spec);
  EXPECT_EQ(plan.lanes,
            (std::vector<Lane>{
                {{send(3, in(20, 40)), recv_reduce(3, in(0, 20), scratch(0, 20), false)},
                 {send(0, scratch(0, 10)), recv_reduce(0, scratch(10, 20), out(0, 10), true)}}}));
  EXPECT_EQ(plan.scratch, 20u);
}

TEST(HalvingDoubling, ASurplusRankGetsItsBlockFromItsPartner) {
  const Spec spec = {.collective = Collective::reduce_scatter, .ranks = 3, .count = 30};
  EXPECT_EQ(halving_reduce_scatter(0, spec).lanes,
            (std::vector<Lane>{{{send(1, in(0, 30))}, {recv(1, out(0, 10))}}}));
  EXPECT_EQ(halving_reduce_scatter(1, spec).lanes,
            (std::vector<Lane>{
                {{recv_reduce(0, in(0, 30), scratch(0, 30), false)},
                 {send(2, scratch(20, 30)), recv_reduce(2, scratch(0, 20), scratch(0, 20), true)},
                 {send(0, scratch(0, 10))},
                 {copy(scratch(10, 20), out(0, 10))}}}));
}

TEST(HalvingDoubling, SendsTheLeastThereIsAmongPowersOfTwo) {
  for (const int n : {2, 8, 64}) {
    const std::size_t block = 64 * 10;
    const Spec spec = {.ranks = n, .count = block * n};
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(elements_sent(halving_doubling_all_reduce(rank, spec)), 2 * (n - 1) * block);
      EXPECT_EQ(elements_sent(halving_reduce_scatter(rank, spec)), (n - 1) * block);
      EXPECT_EQ(elements_sent(doubling_all_gather(rank, spec)), (n - 1) * block);
    }
  }
}

}  // namespace
}  // namespace asup::collective
