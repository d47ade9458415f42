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
    if (!bucket.coded) pad_to_line(bucket.layout);
    append(bucket.layout, gradient, shape);
    last = place;
  }
};

Filling empty(Dtype dtype, bool alone, bool coded) {
  return {{.layout = {.dtype = dtype}, .alone = alone, .coded = coded}, 0};
}

}  // namespace

std::vector<Bucket> lay_out(std::span<const TensorShape> gradients,
                            std::span<const std::size_t> order, const BucketRules& rules) {
  std::vector<Filling> closed;
  std::map<std::pair<Dtype, bool>, Filling> open;  // by type, and whether in a code
  const auto close = [&](Filling filling) {
    if (!rules.coded.empty() && !filling.bucket.coded) filling.last = order.size();
    closed.push_back(std::move(filling));
  };
  for (std::size_t place = 0; place < order.size(); ++place) {
    const TensorShape& shape = gradients[order[place]];
    const bool coded = !rules.coded.empty() && rules.coded[order[place]];
    if (shape.bytes() >= rules.alone_bytes) {
      closed.push_back(empty(shape.dtype, true, coded));
      closed.back().add(order[place], shape, place);
      continue;
    }
    const std::pair kind(shape.dtype, coded);
    Filling& filling = open.try_emplace(kind, empty(shape.dtype, false, coded)).first->second;
    filling.add(order[place], shape, place);
    if (filling.bucket.layout.bytes() <
        (closed.empty() ? rules.first_bucket_bytes : rules.bucket_bytes))
      continue;
    close(std::move(filling));
    open.erase(kind);
  }
  for (auto& [kind, filling] : open) close(std::move(filling));

  std::stable_sort(closed.begin(), closed.end(),
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
