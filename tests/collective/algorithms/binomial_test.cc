#include "asup/collective/algorithms/binomial.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(Binomial, SixRanksFromRankOne) {
  const Spec spec = {.collective = Collective::broadcast, .ranks = 6, .count = 9, .root = 1};
  const AreaRange all = out(0, 9);
  auto lane = [&](int rank) { return binomial_broadcast(rank, spec).lanes.at(0); };
  EXPECT_EQ(lane(1), (Lane{{send(5, in(0, 9)), send(3, in(0, 9)), send(2, in(0, 9))}}));
  EXPECT_EQ(lane(2), (Lane{{recv(1, all)}}));
  EXPECT_EQ(lane(3), (Lane{{recv(1, all)}, {send(4, all)}}));
  EXPECT_EQ(lane(4), (Lane{{recv(3, all)}}));
  EXPECT_EQ(lane(5), (Lane{{recv(1, all)}, {send(0, all)}}));
  EXPECT_EQ(lane(0), (Lane{{recv(5, all)}}));
}

TEST(Binomial, SixRanksReduceToRankOne) {
  const Spec spec = {.collective = Collective::reduce, .ranks = 6, .count = 9, .root = 1};
  auto lane = [&](int rank) { return binomial_reduce(rank, spec).lanes.at(0); };
  EXPECT_EQ(lane(1), (Lane{{recv_reduce(2, in(0, 9), out(0, 9), false)},
                           {recv_reduce(3, out(0, 9), out(0, 9), false)},
                           {recv_reduce(5, out(0, 9), out(0, 9), true)}}));
  EXPECT_EQ(lane(3),
            (Lane{{recv_reduce(4, in(0, 9), scratch(0, 9), false)}, {send(1, scratch(0, 9))}}));
  EXPECT_EQ(lane(4), (Lane{{send(3, in(0, 9))}}));
  EXPECT_EQ(binomial_reduce(1, spec).scratch, 0u);
  EXPECT_EQ(binomial_reduce(3, spec).scratch, 9u);
  EXPECT_EQ(binomial_reduce(4, spec).scratch, 0u);
}

// Places 2 and 3 are ranks 3 and 0: their blocks go over the end of the row, in two messages.
TEST(Binomial, FourRanksGatherToAndScatterFromRankOne) {
  Spec spec = {.collective = Collective::gather, .ranks = 4, .count = 40, .root = 1};
  EXPECT_EQ(binomial_gather(3, spec).lanes,
            (std::vector<Lane>{{{copy(in(0, 10), scratch(0, 10))},
                                {recv(0, scratch(10, 20))},
                                {send(1, scratch(0, 10)), send(1, scratch(10, 20))}}}));
  EXPECT_EQ(
      binomial_gather(1, spec).lanes,
      (std::vector<Lane>{{{copy(in(0, 10), out(10, 20))},
                          {recv(2, out(20, 30)), recv(3, out(30, 40)), recv(3, out(0, 10))}}}));
  spec.collective = Collective::scatter;
  EXPECT_EQ(binomial_scatter(3, spec).lanes,
            (std::vector<Lane>{{{recv(1, scratch(0, 10)), recv(1, scratch(10, 20))},
                                {send(0, scratch(10, 20))},
                                {copy(scratch(0, 10), out(0, 10))}}}));
}

TEST(Binomial, TheRootSendsLogarithmicallyOften) {
  Spec spec = {.collective = Collective::broadcast, .count = 10};
  for (const auto& [n, times] :
       {std::pair(2, 1), std::pair(3, 2), std::pair(8, 3), std::pair(9, 4)}) {
    spec.ranks = n;
    EXPECT_EQ(elements_sent(binomial_broadcast(0, spec)), 10u * times) << n;
    std::size_t all = 0;
    for (int rank = 0; rank < n; ++rank) all += elements_sent(binomial_broadcast(rank, spec));
    EXPECT_EQ(all, 10u * (n - 1));
  }
}

}  // namespace
}  // namespace asup::collective
