#include "asup/collective/algorithms/tree.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

TEST(Tree, SixRanks) {
  const Spec spec = {.ranks = 6, .count = 9};
  auto lane = [&](int rank) { return tree_all_reduce(rank, spec).lanes.at(0); };
  EXPECT_EQ(lane(0), (Lane{{recv_reduce(1, in(0, 9), out(0, 9), false)},
                           {recv_reduce(2, out(0, 9), out(0, 9), false)},
                           {recv_reduce(4, out(0, 9), out(0, 9), true)},
                           {send(4, out(0, 9)), send(2, out(0, 9)), send(1, out(0, 9))}}));
  EXPECT_EQ(lane(4), (Lane{{recv_reduce(5, in(0, 9), out(0, 9), false)},
                           {send(0, out(0, 9))},
                           {recv(0, out(0, 9))},
                           {send(5, out(0, 9))}}));
  EXPECT_EQ(lane(5), (Lane{{send(4, in(0, 9))}, {recv(4, out(0, 9))}}));
}

TEST(Tree, EachLinkCarriesTheWholeOnceEachWay) {
  for (const int n : {2, 3, 8, 13}) {
    const Spec spec = {.ranks = n, .count = 1000, .slice = 100};
    std::size_t all = 0;
    for (int rank = 0; rank < n; ++rank) all += elements_sent(tree_all_reduce(rank, spec));
    EXPECT_EQ(all, 2u * (n - 1) * 1000);
  }
}

}  // namespace
}  // namespace asup::collective
