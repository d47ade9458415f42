#include "asup/sync/gradients/buckets.h"

#include "asup/base/error.h"

namespace asup::sync {
namespace {

std::vector<layout::GradientShape> shapes_of(const std::vector<NamedTensor>& parameters) {
  std::vector<layout::GradientShape> shapes;
  for (const auto& [name, tensor] : parameters)
    shapes.push_back({static_cast<std::size_t>(tensor.numel()), *dtype_of(tensor)});
  return shapes;
}

}  // namespace

Buckets::Buckets(Communicator& communicator, const std::vector<NamedTensor>& parameters,
                 std::span<const std::size_t> order, const layout::BucketSizes& sizes,
                 std::size_t notes)
    : alone_bytes_(sizes.alone_bytes),
      layout_(layout::lay_out(shapes_of(parameters), order, sizes)),
      bucket_of_(parameters.size()),
      views_(parameters.size()) {
  check(order.size() == parameters.size() && !order.empty(), "{} places for {} parameters",
        order.size(), parameters.size());
  for (std::size_t b = 0; b < layout_.size(); ++b)
    for (const auto& slot : layout_[b].slots) bucket_of_[slot.gradient] = b;
  if (notes > 0 && alone(layout_.back().slots.front().gradient)) layout_.emplace_back();
  const std::size_t first_note = notes > 0 ? layout::append(layout_.back(), notes) : 0;

  memory_ = communicator.allocate(layout::place(layout_));
  for (const layout::BucketLayout& bucket : layout_)
    for (const auto& slot : bucket.slots)
      views_[slot.gradient] =
          view_at(address(bucket, slot.offset), parameters[slot.gradient].tensor);
  notes_ = torch::from_blob(address(layout_.back(), first_note), {static_cast<long>(notes)},
                            scalar_type_of(layout_.back().dtype));
}

Buffer Buckets::buffer(std::size_t bucket) const {
  const layout::BucketLayout& layout = layout_[bucket];
  return {address(layout, 0), layout.count, layout.dtype};
}

bool Buckets::alone(std::size_t parameter) const {
  return layout::is_alone(layout_[bucket_of_[parameter]], alone_bytes_);
}

std::byte* Buckets::address(const layout::BucketLayout& bucket, std::size_t element) const {
  return memory_->bytes().data() + bucket.offset + element * size_of(bucket.dtype);
}

torch::Tensor Buckets::view_at(std::byte* data, const torch::Tensor& parameter) const {
  const auto options = torch::dtype(parameter.scalar_type()).device(parameter.device());
  const auto keep = [memory = memory_](void*) {};
  if (parameter.is_non_overlapping_and_dense())
    return torch::from_blob(data, parameter.sizes(), parameter.strides(), keep, options);
  return torch::from_blob(data, parameter.sizes(), keep, options);
}

}  // namespace asup::sync
