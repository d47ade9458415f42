#include "asup/layout/buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

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

// Gradients that may share a bucket: their type, whether they travel in a code, their group.
using Kind = std::tuple<Dtype, bool, std::size_t>;

Filling empty(Dtype dtype, bool alone, bool coded) {
  return {{.layout = {.dtype = dtype}, .alone = alone, .coded = coded}, 0};
}

}  // namespace

std::vector<Bucket> lay_out(std::span<const TensorShape> gradients,
                            std::span<const std::size_t> order, const BucketRules& rules) {
  std::vector<Filling> closed;
  std::map<Kind, Filling> open;
  const auto is_alone = [&](std::size_t i) { return gradients[i].bytes() >= rules.alone_bytes; };
  const auto kind_of = [&](std::size_t i) {
    return Kind(gradients[i].dtype, !rules.coded.empty() && rules.coded[i],
                rules.groups.empty() ? 0 : rules.groups[i]);
  };
  std::map<Kind, std::size_t> to_come;  // bytes that will share buckets
  for (const std::size_t i : order)
    if (!is_alone(i)) to_come[kind_of(i)] += gradients[i].bytes();
  const auto size_of_next = [&](std::size_t rest) {
    const std::size_t usual = closed.empty() ? rules.first_bucket_bytes : rules.bucket_bytes;
    return std::min(usual, std::max(rest, rules.alone_bytes));
  };
  const auto close = [&](Filling filling) {
    if (!rules.coded.empty() && !filling.bucket.coded) filling.last = order.size();
    closed.push_back(std::move(filling));
  };
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::size_t i = order[place];
    const TensorShape& shape = gradients[i];
    const Kind kind = kind_of(i);
    const auto& [dtype, coded, group] = kind;
    if (is_alone(i)) {
      closed.push_back(empty(dtype, true, coded));
      closed.back().add(i, shape, place);
      continue;
    }
    Filling& filling = open.try_emplace(kind, empty(dtype, false, coded)).first->second;
    filling.add(i, shape, place);
    const std::size_t rest = to_come[kind] -= shape.bytes();
    if (filling.bucket.layout.bytes() < size_of_next(rest)) continue;
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
    if (!bucket.alone && !bucket.coded) pad_to_line(space.layout);
    space.buckets.push_back({begin, space.layout.elements});
  }
  space.layout = without_empty(std::move(space.layout));
  return space;
}

}  // namespace asup::layout
