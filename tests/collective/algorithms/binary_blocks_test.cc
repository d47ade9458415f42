#include "asup/collective/algorithms/binary_blocks.h"

#include <algorithm>

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::elements_sent;

// 6 = 4 + 2. Ranks 4 and 5 hold a half each, which belongs to two ranks of the larger block.
TEST(BinaryBlocks, SixRanks) {
  const Spec spec = {.ranks = 6, .count = 256};
  EXPECT_EQ(
      binary_blocks_all_reduce(5, spec).lanes,
      (std::vector<Lane>{{{send(4, in(0, 128)), recv_reduce(4, in(128, 256), out(128, 256), false)},
                          {send(1, out(128, 192)), send(3, out(192, 256))},
                          {recv(1, out(128, 192)), recv(3, out(192, 256))},
                          {send(4, out(128, 256)), recv(4, out(0, 128))}}}));
  EXPECT_EQ(binary_blocks_all_reduce(1, spec).lanes,
            (std::vector<Lane>{
                {{send(0, in(0, 128)), recv_reduce(0, in(128, 256), out(128, 256), false)},
                 {send(3, out(192, 256)), recv_reduce(3, out(128, 192), out(128, 192), false)},
                 {recv_reduce(5, out(128, 192), out(128, 192), true)},
                 {send(3, out(128, 192)), recv(3, out(192, 256)), send(5, out(128, 192))},
                 {send(0, out(128, 256)), recv(0, out(0, 128))}}}));
}

// 600 = 512 + 64 + 16 + 8. A rank of the smallest block hands on its eighth, no rank the whole.
TEST(BinaryBlocks, NoRankOfSixHundredSendsMuchMoreThanTwiceTheWhole) {
  const std::size_t count = 512 * 64;
  const Spec spec = {.ranks = 600, .count = count};
  std::size_t most = 0;
  for (int rank = 0; rank < 600; ++rank) {
    most = std::max(most, elements_sent(binary_blocks_all_reduce(rank, spec)));
  }
  EXPECT_LE(most, 2 * count + count / 512);
  EXPECT_EQ(binary_blocks_all_reduce(0, spec).lanes[0].size(), 2u * 9 + 1);
}

TEST(BinaryBlocks, AmongAPowerOfTwoItIsHalvingAndDoubling) {
  const Spec spec = {.ranks = 8, .count = 10007};
  const Algorithm& other = find_algorithm(Collective::all_reduce, "halving_doubling");
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(binary_blocks_all_reduce(rank, spec).lanes, other.plan(rank, spec).lanes);
  }
}

}  // namespace
}  // namespace asup::collective
