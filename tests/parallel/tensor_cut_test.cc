#include "asup/parallel/tensor_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace asup::parallel {
namespace {

using ::testing::ElementsAre;

TEST(TensorCut, DealsOutInOrder) {
  EXPECT_EQ(part_of(10, 0, 4), (IndexRange{0, 3}));
  EXPECT_EQ(part_of(10, 1, 4), (IndexRange{3, 3}));
  EXPECT_EQ(part_of(10, 2, 4), (IndexRange{6, 2}));
  EXPECT_EQ(part_of(10, 3, 4), (IndexRange{8, 2}));
}

TEST(TensorCut, BlocksAreCutOneByOne) {
  const TensorCut cut{1, 12, 3};
  EXPECT_THAT(cut.ranges(1, 2), ElementsAre(IndexRange{2, 2}, IndexRange{6, 2}, IndexRange{10, 2}));
  EXPECT_EQ(cut.size(1, 2), 6);
}

TEST(TensorCut, PartsPutTogetherAreTheWhole) {
  const torch::Tensor whole = torch::arange(7 * 12).view({7, 12});
  for (const TensorCut& cut : {TensorCut{0, 7}, TensorCut{1, 12}, TensorCut{1, 12, 3}})
    for (const int ranks : {1, 2, 3}) {
      torch::Tensor together = torch::zeros_like(whole);
      for (int rank = 0; rank < ranks; ++rank) {
        const torch::Tensor part = part_of(whole, cut, rank, ranks);
        EXPECT_EQ(part.size(cut.dimension), cut.size(rank, ranks));
        EXPECT_EQ(whole_shape(part.sizes(), cut), whole.sizes().vec());
        put_part(together, part, cut, rank, ranks);
      }
      EXPECT_TRUE(together.equal(whole));
    }
}

}  // namespace
}  // namespace asup::parallel
