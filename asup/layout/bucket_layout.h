// Which gradient lies where: a pure function of sizes, types and an order, so that ranks that agree
// on these agree on the layout. Values only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "asup/base/dtype.h"

namespace asup::layout {

// Gradients start on cache lines; buckets start on pages, so that no two of them share one.
inline constexpr std::size_t kGradientAlignment = 64;
inline constexpr std::size_t kBucketAlignment = 4096;

struct GradientShape {
  std::size_t count = 0;  // elements
  Dtype dtype = Dtype::f32;

  std::size_t bytes() const { return count * size_of(dtype); }
};

// One collective call's worth of gradients of one type.
struct BucketLayout {
  struct Slot {
    std::size_t gradient = 0;  // index into the list of gradients
    std::size_t offset = 0;    // elements from the bucket's begin
  };

  Dtype dtype = Dtype::f32;
  std::vector<Slot> slots;
  std::size_t count = 0;   // elements, padding included
  std::size_t offset = 0;  // bytes from the begin of all buckets' memory
};

struct BucketSizes {
  std::size_t bucket_bytes = 25u << 20;
  std::size_t first_bucket_bytes = 4u << 20;
  std::size_t alone_bytes = 1u << 20;  // a gradient of this size has a bucket to itself
};

// Buckets in the order in which their last gradients arrive when gradients arrive in `order` (a
// permutation of the gradients' indices). Large gradients are alone in theirs, which then is as
// long as the gradient; others fill the open bucket of their type, which closes when it has reached
// its size.
std::vector<BucketLayout> lay_out(std::span<const GradientShape> gradients,
                                  std::span<const std::size_t> order, const BucketSizes& sizes);

// Indices of `count` gradients, the last first: the order in which backward reaches most models.
std::vector<std::size_t> backwards(std::size_t count);

// Whether it holds one large gradient, and nothing else.
bool is_alone(const BucketLayout& bucket, std::size_t alone_bytes);

// Elements added to the end of a bucket, on a cache line of their own; returns their offset.
std::size_t append(BucketLayout& bucket, std::size_t count);

// Places the buckets one after the other; returns the bytes of all.
std::size_t place(std::span<BucketLayout> buckets);

}  // namespace asup::layout
