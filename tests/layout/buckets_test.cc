#include "asup/layout/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace asup::layout {
namespace {

using ::testing::ElementsAre;

using Indices = std::vector<std::size_t>;

const BucketRules kSizes{.bucket_bytes = 4000, .first_bucket_bytes = 400, .alone_bytes = 4000};

// Of f32, or as said.
TensorShape shape(std::uint64_t elements, Dtype dtype = Dtype::f32) {
  return {"", elements, dtype};
}

std::vector<Indices> gradients_of(const std::vector<Bucket>& buckets) {
  std::vector<Indices> result;
  for (const Bucket& bucket : buckets) {
    result.emplace_back();
    for (const auto& tensor : bucket.layout.tensors) result.back().push_back(tensor.index);
  }
  return result;
}

TEST(Buckets, FirstBucketIsSmallAndOthersFillUp) {
  const std::vector<TensorShape> shapes(30, shape(100));  // 400 bytes each
  const auto buckets = gradients_of(lay_out(shapes, backwards(30), kSizes));
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_THAT(buckets[0], ElementsAre(29));
  EXPECT_EQ(buckets[1].size(), 10u);  // the tenth starts on a cache line before 4000 bytes
  EXPECT_EQ(buckets[1].front(), 28u);
  EXPECT_EQ(buckets[3].back(), 0u);
}

TEST(Buckets, TheLastOnesAreSmall) {
  const std::vector<TensorShape> shapes(64, shape(16));  // 64 bytes each, 4096 in all
  const BucketRules rules{
      .bucket_bytes = 1 << 20, .first_bucket_bytes = 1 << 20, .alone_bytes = 256};
  std::vector<std::size_t> sizes;
  for (const auto& bucket : gradients_of(lay_out(shapes, backwards(64), rules)))
    sizes.push_back(bucket.size());
  EXPECT_THAT(sizes, ElementsAre(32, 16, 8, 4, 4));
}

TEST(Buckets, ThoseInACodeHaveTheirOwnAndTheOthersComeLast) {
  const std::vector<TensorShape> shapes = {shape(603), shape(10), shape(603), shape(10),
                                           shape(5000)};
  BucketRules rules = kSizes;
  rules.coded = {true, false, true, false, true};
  const auto buckets = lay_out(shapes, Indices{4, 3, 2, 1, 0}, rules);
  EXPECT_THAT(gradients_of(buckets),
              ElementsAre(ElementsAre(4), ElementsAre(2, 0), ElementsAre(3, 1)));
  EXPECT_TRUE(buckets[0].coded && buckets[0].alone);
  EXPECT_TRUE(buckets[1].coded);
  EXPECT_EQ(buckets[1].layout.elements, 1206u);  // without gaps
  EXPECT_FALSE(buckets[2].coded);
}

TEST(Buckets, LargeGradientsTravelAlone) {
  const std::vector<TensorShape> shapes = {shape(5000), shape(10), shape(5000), shape(10)};
  const auto buckets = lay_out(shapes, Indices{3, 2, 1, 0}, kSizes);
  EXPECT_THAT(gradients_of(buckets),
              ElementsAre(ElementsAre(2), ElementsAre(3, 1), ElementsAre(0)));
  EXPECT_TRUE(buckets[0].alone);
  EXPECT_FALSE(buckets[1].alone);
  EXPECT_TRUE(buckets[2].alone);
}

TEST(Buckets, TypesDoNotMixAndBucketsLeaveByTheirLastGradient) {
  const std::vector<TensorShape> shapes = {shape(10), shape(10, Dtype::bf16), shape(10),
                                           shape(10, Dtype::bf16), shape(10, Dtype::f64)};
  const auto buckets = lay_out(shapes, Indices{0, 1, 4, 3, 2}, kSizes);
  EXPECT_THAT(gradients_of(buckets),
              ElementsAre(ElementsAre(4), ElementsAre(1, 3), ElementsAre(0, 2)));
  EXPECT_EQ(buckets[0].layout.dtype, Dtype::f64);
  EXPECT_EQ(buckets[1].layout.dtype, Dtype::bf16);
}

TEST(Buckets, AreOfOneGroupEach) {
  const std::vector<TensorShape> shapes(6, shape(16));
  BucketRules rules = kSizes;
  rules.groups = {0, 0, 1, 1, 1, 2};
  EXPECT_THAT(gradients_of(lay_out(shapes, backwards(6), rules)),
              ElementsAre(ElementsAre(5), ElementsAre(4, 3, 2), ElementsAre(1, 0)));
}

TEST(Buckets, GradientsStartOnCacheLinesAndBucketsOnPages) {
  const std::vector<TensorShape> shapes = {shape(3), shape(7), shape(1, Dtype::f64), shape(0),
                                           shape(2000, Dtype::f64)};
  auto buckets = lay_out(shapes, Indices{0, 1, 2, 3, 4}, kSizes);
  const std::uint64_t bytes = place(buckets);
  std::uint64_t end = 0;
  for (const Bucket& bucket : buckets) {
    EXPECT_EQ(bucket.offset % kBucketAlignment, 0u);
    EXPECT_GE(bucket.offset, end);
    std::uint64_t used = 0;
    for (const auto& [index, name, range] : bucket.layout.tensors) {
      EXPECT_EQ(range.begin * size_of(bucket.layout.dtype) % kCacheLine, 0u);
      EXPECT_GE(range.begin, used);
      EXPECT_EQ(range.size(), shapes[index].elements);
      used = range.end;
    }
    EXPECT_GE(bucket.layout.elements, used);
    end = bucket.offset + bucket.layout.bytes();
  }
  EXPECT_GE(bytes, end);
}

TEST(Buckets, AsOneSpaceBeginOnCacheLinesAndEndThereUnlessAlone) {
  const std::vector<TensorShape> shapes = {{"a", 10}, {"none", 0}, {"large", 1001}, {"b", 3}};
  const auto buckets = lay_out(shapes, backwards(4), kSizes);  // large; b, none, a
  const FlatSpace space = flat_space(buckets);
  EXPECT_THAT(space.buckets, ElementsAre(Range{0, 1001}, Range{1008, 1040}));
  EXPECT_THAT(space.layout.tensors, ElementsAre(Layout::Tensor{2, "large", {0, 1001}},
                                                Layout::Tensor{3, "b", {1008, 1011}},
                                                Layout::Tensor{0, "a", {1024, 1034}}));
  EXPECT_EQ(space.layout.elements, 1040u);
}

TEST(Buckets, InACodeEndWithTheirLastGradient) {
  BucketRules sizes = kSizes;
  sizes.coded = {true, false, true};
  const auto buckets =
      lay_out(std::vector<TensorShape>{{"a", 10}, {"bias", 3}, {"b", 20}}, backwards(3), sizes);
  EXPECT_THAT(flat_space(buckets).buckets, ElementsAre(Range{0, 30}, Range{32, 48}));
}

}  // namespace
}  // namespace asup::layout
