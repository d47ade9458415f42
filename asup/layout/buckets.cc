#include "asup/layout/buckets.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace asup::layout {
namespace {

// A bucket being filled.
struct Filling {
  Bucket bucket;
  std::size_t last = 0;  // its last gradient's place in the order

  void add(std::size_t gradient, const TensorShape& shape, std::size_t place) {
    pad_to_line(bucket.layout);
    append(bucket.layout, gradient, shape);
    last = place;
  }
};

Filling empty(Dtype dtype, bool alone) { return {{.layout = {.dtype = dtype}, .alone = alone}, 0}; }

}  // namespace

std::vector<Bucket> lay_out(std::span<const TensorShape> gradients,
                            std::span<const std::size_t> order, const BucketSizes& sizes) {
  std::vector<Filling> closed;
  std::map<Dtype, Filling> open;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const TensorShape& shape = gradients[order[place]];
    if (shape.bytes() >= sizes.alone_bytes) {
      closed.push_back(empty(shape.dtype, true));
      closed.back().add(order[place], shape, place);
      continue;
    }
    Filling& filling = open.try_emplace(shape.dtype, empty(shape.dtype, false)).first->second;
    filling.add(order[place], shape, place);
    if (filling.bucket.layout.bytes() <
        (closed.empty() ? sizes.first_bucket_bytes : sizes.bucket_bytes))
      continue;
    closed.push_back(std::move(filling));
    open.erase(shape.dtype);
  }
  for (auto& [dtype, filling] : open) closed.push_back(std::move(filling));

  std::sort(closed.begin(), closed.end(),
            [](const Filling& a, const Filling& b) { return a.last < b.last; });
  std::vector<Bucket> buckets;
  for (Filling& filling : closed) buckets.push_back(std::move(filling.bucket));
  return buckets;
}

std::vector<std::size_t> backwards(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

std::uint64_t place(std::span<Bucket> buckets) {
  std::uint64_t bytes = 0;
  for (Bucket& bucket : buckets) {
    bucket.offset = bytes;
    bytes += round_up(bucket.layout.bytes(), kBucketAlignment);
  }
  return bytes;
}

FlatSpace flat_space(std::span<const Bucket> buckets) {
  FlatSpace space;
  for (const Bucket& bucket : buckets) {
    pad_to_line(space.layout);
    const std::uint64_t begin = space.layout.elements;
    append(space.layout, bucket.layout);
    if (!bucket.alone) pad_to_line(space.layout);
    space.buckets.push_back({begin, space.layout.elements});
  }
  space.layout = without_empty(std::move(space.layout));
  return space;
}

}  // namespace asup::layout
