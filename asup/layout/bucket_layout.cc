#include "asup/layout/bucket_layout.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace asup::layout {
namespace {

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A bucket being filled.
struct Filling {
  BucketLayout bucket;
  std::size_t last = 0;  // its last gradient's place in the order

  void add(std::size_t gradient, std::size_t count, std::size_t place) {
    bucket.slots.push_back({gradient, append(bucket, count)});
    last = place;
  }
  std::size_t bytes() const { return bucket.count * size_of(bucket.dtype); }
};

Filling empty(Dtype dtype) { return {{.dtype = dtype, .slots = {}}, 0}; }

}  // namespace

std::size_t append(BucketLayout& bucket, std::size_t count) {
  const std::size_t begin = round_up(bucket.count, kGradientAlignment / size_of(bucket.dtype));
  bucket.count = begin + count;
  return begin;
}

std::vector<BucketLayout> lay_out(std::span<const GradientShape> gradients,
                                  std::span<const std::size_t> order, const BucketSizes& sizes) {
  std::vector<Filling> closed;
  std::map<Dtype, Filling> open;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const GradientShape& shape = gradients[order[place]];
    if (shape.bytes() >= sizes.alone_bytes) {
      closed.push_back(empty(shape.dtype));
      closed.back().add(order[place], shape.count, place);
      continue;
    }
    Filling& filling = open.try_emplace(shape.dtype, empty(shape.dtype)).first->second;
    filling.add(order[place], shape.count, place);
    if (filling.bytes() < (closed.empty() ? sizes.first_bucket_bytes : sizes.bucket_bytes))
      continue;
    closed.push_back(std::move(filling));
    open.erase(shape.dtype);
  }
  for (auto& [dtype, filling] : open) closed.push_back(std::move(filling));

  std::sort(closed.begin(), closed.end(),
            [](const Filling& a, const Filling& b) { return a.last < b.last; });
  std::vector<BucketLayout> buckets;
  for (Filling& filling : closed) buckets.push_back(std::move(filling.bucket));
  return buckets;
}

std::vector<std::size_t> backwards(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

bool is_alone(const BucketLayout& bucket, std::size_t alone_bytes) {
  return bucket.slots.size() == 1 && bucket.count * size_of(bucket.dtype) >= alone_bytes;
}

std::size_t place(std::span<BucketLayout> buckets) {
  std::size_t bytes = 0;
  for (BucketLayout& bucket : buckets) {
    bucket.offset = bytes;
    bytes += round_up(bucket.count * size_of(bucket.dtype), kBucketAlignment);
  }
  return bytes;
}

}  // namespace asup::layout
