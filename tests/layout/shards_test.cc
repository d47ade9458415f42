#include "asup/layout/shards.h"

#include <gmock/gmock.h>

#include <numeric>

namespace asup::layout {
namespace {

using ::testing::ElementsAre;

std::vector<Bucket> buckets_of(const std::vector<TensorShape>& shapes,
                               std::size_t alone_bytes = std::size_t{1} << 40) {
  std::vector<std::size_t> order(shapes.size());
  std::iota(order.begin(), order.end(), 0);
  return lay_out(shapes, order,
                 {.bucket_bytes = std::size_t{1} << 40,
                  .first_bucket_bytes = std::size_t{1} << 40,
                  .alone_bytes = alone_bytes});
}

TEST(Shards, AreCutAfterWholeChunksOfTheirTensor) {
  const auto buckets = buckets_of({{"a", 10}, {"b", 5000}});  // b at 16
  EXPECT_THAT(cut_into_shards(buckets, 2, false),
              ElementsAre(ElementsAre(Range{0, 16 + 2048}, Range{16 + 2048, 5016})));
}

TEST(Shards, BeginWithATensorWhereOneEndsBeforeAWholeChunk) {
  const auto buckets = buckets_of({{"a", 700}, {"b", 500}});  // b at 704
  EXPECT_THAT(cut_into_shards(buckets, 2, false),
              ElementsAre(ElementsAre(Range{0, 704}, Range{704, 1204})));
}

// For any sizes and ranks, shards follow each other, make up the bucket, and differ by a chunk or a
// tensor's rest.
TEST(Shards, MakeUpTheBucketAndAreAlmostEven) {
  for (const std::size_t ranks : {1, 2, 3, 7, 16})
    for (const std::uint64_t size : {1, 1000, 4096, 100'003}) {
      const auto buckets =
          buckets_of({{"a", size}, {"b", 3}, {"c", size / 2 + 1}, {"d", 2 * size}});
      const auto shards = cut_into_shards(buckets, ranks, false).front();
      const std::uint64_t elements = buckets.front().layout.elements;
      std::uint64_t at = 0;
      for (const Range& shard : shards) {
        EXPECT_EQ(shard.begin, at);
        at = shard.end;
        EXPECT_LE(shard.size(), elements / ranks + 2 * kShardChunk);
      }
      EXPECT_EQ(at, elements);
    }
}

TEST(Shards, OfWholeTensorsAreCutBetweenThem) {
  const auto buckets = buckets_of({{"a", 32}, {"b", 48}, {"c", 16}, {"d", 32}});
  EXPECT_THAT(cut_into_shards(buckets, 2, true),
              ElementsAre(ElementsAre(Range{0, 80}, Range{80, 128})));
}

TEST(Shards, OfWholeTensorsThatAreAloneGoToWhoHasLeast) {
  const auto buckets = buckets_of({{"a", 100}, {"b", 60}, {"c", 30}, {"d", 30}}, 1);
  const auto all = cut_into_shards(buckets, 2, true);
  EXPECT_THAT(all, ElementsAre(ElementsAre(Range{0, 100}, Range{100, 100}),
                               ElementsAre(Range{0, 0}, Range{0, 60}),
                               ElementsAre(Range{0, 0}, Range{0, 30}),
                               ElementsAre(Range{0, 0}, Range{0, 30})));
}

TEST(Pieces, OfAllRanksHoldEachElementOnce) {
  const std::vector<TensorShape> shapes = {{"a", 10}, {"none", 0}, {"b", 5000}, {"c", 3000}};
  const auto buckets = buckets_of(shapes);
  const auto shards = cut_into_shards(buckets, 3, false);
  std::vector<std::uint64_t> next(shapes.size());
  for (std::size_t rank = 0; rank < 3; ++rank)
    for (const Piece& piece : pieces_of(buckets, shards, rank)) {
      EXPECT_EQ(piece.offset, next[piece.tensor]);
      EXPECT_EQ(piece.offset % kShardChunk, 0u);
      next[piece.tensor] += piece.elements;
    }
  EXPECT_THAT(next, ElementsAre(10, 0, 5000, 3000));
}

}  // namespace
}  // namespace asup::layout
