#include "asup/sync/model/flat_space.h"

namespace asup::sync {
namespace {

constexpr std::uint64_t kLine = layout::kGradientAlignment / sizeof(float);

std::uint64_t round_up(std::uint64_t elements) { return (elements + kLine - 1) / kLine * kLine; }

// A gradient that is alone may leave from memory of its own, which ends with it; the memory of
// others goes on, with zeros, to the end of a page.
std::uint64_t length_of(const layout::BucketLayout& bucket, const layout::BucketSizes& sizes) {
  return layout::is_alone(bucket, sizes.alone_bytes) ? bucket.count : round_up(bucket.count);
}

}  // namespace

FlatSpace flat_space(const std::vector<NamedTensor>& parameters, const layout::BucketSizes& sizes) {
  FlatSpace space;
  std::vector<layout::GradientShape> shapes;
  for (const NamedTensor& parameter : parameters)
    shapes.push_back({static_cast<std::size_t>(parameter.tensor.numel()), Dtype::f32});
  space.parameters.resize(parameters.size());
  for (const layout::BucketLayout& filled :
       layout::lay_out(shapes, layout::backwards(shapes.size()), sizes)) {
    const std::uint64_t begin = round_up(space.layout.elements);
    const ps::Range bucket{begin, begin + length_of(filled, sizes)};
    for (const auto& slot : filled.slots) {
      const auto elements = static_cast<std::uint64_t>(parameters[slot.gradient].tensor.numel());
      const ps::Range range{begin + slot.offset, begin + slot.offset + elements};
      space.parameters[slot.gradient] = range;
      if (!range.empty()) space.layout.tensors.push_back({parameters[slot.gradient].name, range});
    }
    space.layout.elements = bucket.end;
    space.buckets.push_back(bucket);
    if (!space.ranges.empty() && space.ranges.back().end == bucket.begin)
      space.ranges.back().end = bucket.end;
    else if (!bucket.empty())
      space.ranges.push_back(bucket);
  }
  return space;
}

FlatSpace flat_space(const std::vector<NamedTensor>& parameters) {
  FlatSpace space;
  for (const auto& [name, tensor] : parameters) {
    const std::uint64_t begin = round_up(space.layout.elements);
    const ps::Range range{begin, begin + static_cast<std::uint64_t>(tensor.numel())};
    space.parameters.push_back(range);
    if (!range.empty()) space.layout.tensors.push_back({name, range});
    space.layout.elements = round_up(range.end);
  }
  space.ranges.push_back({0, space.layout.elements});
  space.buckets = space.ranges;
  return space;
}

torch::Tensor view_like(const torch::Tensor& like, float* place, std::shared_ptr<void> memory) {
  const auto keep = [memory = std::move(memory)](void*) {};
  return like.is_non_overlapping_and_dense()
             ? torch::from_blob(place, like.sizes(), like.strides(), keep, torch::kFloat32)
             : torch::from_blob(place, like.sizes(), keep, torch::kFloat32);
}

}  // namespace asup::sync
