#include "asup/sync/gradients/buckets.h"

#include "asup/base/error.h"

namespace asup::sync {

Buckets::Buckets(Communicator& communicator, const std::vector<NamedTensor>& parameters,
                 std::span<const std::size_t> order, const layout::BucketSizes& sizes,
                 std::size_t notes)
    : buckets_(layout::lay_out(shapes_of(parameters), order, sizes)),
      bucket_of_(parameters.size()),
      views_(parameters.size()) {
  check(order.size() == parameters.size() && !order.empty(), "{} places for {} parameters",
        order.size(), parameters.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    for (const auto& gradient : layout(b).tensors) bucket_of_[gradient.index] = b;
  if (notes > 0 && buckets_.back().alone) buckets_.emplace_back();
  layout::Layout& last = buckets_.back().layout;
  if (notes > 0) layout::pad_to_line(last);
  const std::uint64_t first_note = last.elements;
  last.elements += notes;

  memory_ = communicator.allocate(layout::place(buckets_));
  for (const layout::Bucket& bucket : buckets_)
    for (const auto& [index, name, range] : bucket.layout.tensors)
      views_[index] = view_like(parameters[index].tensor, address(bucket, range.begin), memory_);
  notes_ = torch::from_blob(address(buckets_.back(), first_note), {static_cast<long>(notes)},
                            scalar_type_of(last.dtype));
}

Buffer Buckets::buffer(std::size_t bucket) const {
  return {address(buckets_[bucket], 0), layout(bucket).elements, layout(bucket).dtype};
}

std::byte* Buckets::address(const layout::Bucket& bucket, std::uint64_t element) const {
  return memory_->bytes().data() + bucket.offset + element * size_of(bucket.layout.dtype);
}

}  // namespace asup::sync
