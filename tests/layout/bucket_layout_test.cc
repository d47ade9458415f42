#include "asup/layout/bucket_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace asup::layout {
namespace {

using ::testing::ElementsAre;

using Indices = std::vector<std::size_t>;

constexpr BucketSizes kSizes{.bucket_bytes = 4000, .first_bucket_bytes = 400, .alone_bytes = 4000};

std::vector<Indices> gradients_of(const std::vector<BucketLayout>& buckets) {
  std::vector<Indices> result;
  for (const BucketLayout& bucket : buckets) {
    result.emplace_back();
    for (const auto& slot : bucket.slots) result.back().push_back(slot.gradient);
  }
  return result;
}

TEST(BucketLayout, FirstBucketIsSmallAndOthersFillUp) {
  const std::vector<GradientShape> shapes(30, {100, Dtype::f32});  // 400 bytes each
  Indices order(30);
  std::iota(order.rbegin(), order.rend(), 0);
  const auto buckets = gradients_of(lay_out(shapes, order, kSizes));
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_THAT(buckets[0], ElementsAre(29));
  EXPECT_EQ(buckets[1].size(), 10u);  // the tenth starts on a cache line before 4000 bytes
  EXPECT_EQ(buckets[1].front(), 28u);
  EXPECT_EQ(buckets[3].back(), 0u);
}

TEST(BucketLayout, LargeGradientsTravelAlone) {
  const std::vector<GradientShape> shapes = {
      {5000, Dtype::f32}, {10, Dtype::f32}, {5000, Dtype::f32}, {10, Dtype::f32}};
  const auto buckets = gradients_of(lay_out(shapes, Indices{3, 2, 1, 0}, kSizes));
  EXPECT_THAT(buckets, ElementsAre(ElementsAre(2), ElementsAre(3, 1), ElementsAre(0)));
}

TEST(BucketLayout, TypesDoNotMixAndBucketsLeaveByTheirLastGradient) {
  const std::vector<GradientShape> shapes = {
      {10, Dtype::f32}, {10, Dtype::bf16}, {10, Dtype::f32}, {10, Dtype::bf16}, {10, Dtype::f64}};
  const auto buckets = lay_out(shapes, Indices{0, 1, 4, 3, 2}, kSizes);
  EXPECT_THAT(gradients_of(buckets),
              ElementsAre(ElementsAre(4), ElementsAre(1, 3), ElementsAre(0, 2)));
  EXPECT_EQ(buckets[0].dtype, Dtype::f64);
  EXPECT_EQ(buckets[1].dtype, Dtype::bf16);
}

TEST(BucketLayout, GradientsStartOnCacheLinesAndBucketsOnPages) {
  const std::vector<GradientShape> shapes = {
      {3, Dtype::f32}, {7, Dtype::f32}, {1, Dtype::f64}, {0, Dtype::f32}, {2000, Dtype::f64}};
  auto buckets = lay_out(shapes, Indices{0, 1, 2, 3, 4}, kSizes);
  append(buckets.back(), 2);
  const std::size_t bytes = place(buckets);
  std::size_t end = 0;
  for (const BucketLayout& bucket : buckets) {
    EXPECT_EQ(bucket.offset % kBucketAlignment, 0u);
    EXPECT_GE(bucket.offset, end);
    std::size_t used = 0;
    for (const auto& slot : bucket.slots) {
      EXPECT_EQ(slot.offset * size_of(bucket.dtype) % kGradientAlignment, 0u);
      EXPECT_GE(slot.offset, used);
      used = slot.offset + shapes[slot.gradient].count;
    }
    EXPECT_GE(bucket.count, used);
    end = bucket.offset + bucket.count * size_of(bucket.dtype);
  }
  EXPECT_GE(bytes, end);
}

}  // namespace
}  // namespace asup::layout
