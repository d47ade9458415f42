#include "asup/collective/binomial.h"

#include "asup/collective/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(Binomial, SixRanksFromRankOne) {
  const Spec spec = {.collective = Collective::broadcast, .ranks = 6, .count = 9, .root = 1};
  const Range all = out(0, 9);
  auto lane = [&](int rank) { return binomial_broadcast(rank, spec).lanes.at(0); };
  EXPECT_EQ(lane(1), (Lane{{send(5, in(0, 9)), send(3, in(0, 9)), send(2, in(0, 9))}}));
  EXPECT_EQ(lane(2), (Lane{{recv(1, all)}}));
  EXPECT_EQ(lane(3), (Lane{{recv(1, all)}, {send(4, all)}}));
  EXPECT_EQ(lane(4), (Lane{{recv(3, all)}}));
  EXPECT_EQ(lane(5), (Lane{{recv(1, all)}, {send(0, all)}}));
  EXPECT_EQ(lane(0), (Lane{{recv(5, all)}}));
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
