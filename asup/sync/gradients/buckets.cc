#include "asup/sync/gradients/buckets.h"

#include <algorithm>
#include <limits>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/pages.h"
#include "asup/sync/model/device.h"

namespace asup::sync {

layout::BucketRules with_coded(layout::BucketRules rules, const std::vector<NamedTensor>& tensors,
                               const std::function<bool(const torch::Tensor&)>& takes, bool tells) {
  if (!takes) return rules;
  for (const auto& [name, tensor] : tensors) rules.coded.push_back(takes(tensor));
  if (std::ranges::find(rules.coded, true) != rules.coded.end()) return rules;
  if (tells)
    log().warn("compress changes nothing: the model has no weights of f32 that are large enough");
  rules.coded.clear();
  return rules;
}

Buckets::Buckets(Communicator& communicator, const std::vector<NamedTensor>& parameters,
                 std::span<const std::size_t> order, const layout::BucketRules& rules,
                 std::size_t notes, bool notes_alone)
    : buckets_(layout::lay_out(shapes_of(parameters), order, rules)),
      bucket_of_(parameters.size()),
      views_(parameters.size()) {
  check(order.size() == parameters.size() && !order.empty(), "{} places for {} parameters",
        order.size(), parameters.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    for (const auto& gradient : layout(b).tensors) bucket_of_[gradient.index] = b;
  if (notes > 0 && (buckets_.back().alone || buckets_.back().coded || notes_alone))
    buckets_.emplace_back();
  layout::Layout& last = buckets_.back().layout;
  if (notes > 0) layout::pad_to_line(last);
  first_note_ = last.elements;
  last.elements += notes;

  memory_ = communicator.allocate(layout::place(buckets_));
  const torch::Device device = parameters.front().tensor.device();
  if (travels_as_copy(device))
    mirror_ = std::make_unique<BucketMirror>(memory_, device, buckets_.size());
  std::byte* gradients = mirror_ ? mirror_->data() : memory_->bytes().data();
  const std::shared_ptr<void> keep = mirror_ ? mirror_->memory() : memory_;
  for (const layout::Bucket& bucket : buckets_)
    for (const auto& [index, name, range] : bucket.layout.tensors)
      views_[index] =
          view_like(parameters[index].tensor, gradients + offset(bucket, range.begin), keep);
  notes_ = torch::from_blob(memory_->bytes().data() + offset(buckets_.back(), first_note_),
                            {static_cast<long>(notes)}, scalar_type_of(last.dtype));
}

Buffer Buckets::buffer(std::size_t bucket) const {
  return {memory_->bytes().data() + offset(buckets_[bucket], 0), layout(bucket).elements,
          layout(bucket).dtype};
}

void Buckets::empty(std::size_t bucket) const {
  const Buffer all = buffer(bucket);
  give_pages_back(
      {static_cast<std::byte*>(all.data), layout::round_up(all.bytes(), layout::kBucketAlignment)});
}

void Buckets::follow_stream() const {
  if (mirror_) mirror_->follow_stream();
}

void Buckets::to_host(std::size_t bucket) const {
  if (mirror_ && gradient_bytes(bucket) > 0)
    mirror_->to_host(bucket, offset(buckets_[bucket], 0), gradient_bytes(bucket));
}

void Buckets::find_peak(std::size_t bucket) const {
  if (mirror_ && gradient_bytes(bucket) > 0)
    mirror_->find_peak(bucket, offset(buckets_[bucket], 0), gradient_bytes(bucket),
                       scalar_type_of(layout(bucket).dtype));
}

double Buckets::peak(std::size_t bucket) const {
  return mirror_ ? mirror_->peak(bucket) : std::numeric_limits<double>::infinity();
}

void Buckets::wait_for(std::size_t bucket) const {
  if (mirror_) mirror_->wait_for(bucket);
}

void Buckets::to_device(std::size_t bucket) const {
  if (mirror_ && gradient_bytes(bucket) > 0)
    mirror_->to_device(offset(buckets_[bucket], 0), gradient_bytes(bucket));
}

bool Buckets::was_changed(std::size_t bucket) const {
  constexpr std::size_t kLookedAt = 4096;  // bytes
  if (!mirror_) return false;
  const std::size_t bytes = std::min(gradient_bytes(bucket), kLookedAt);
  mirror_->wait_for(bucket);
  return mirror_->differs(offset(buckets_[bucket], 0), bytes);
}

// In bytes, from the begin of the memory.
std::size_t Buckets::offset(const layout::Bucket& bucket, std::uint64_t element) const {
  return bucket.offset + element * size_of(bucket.layout.dtype);
}

std::size_t Buckets::gradient_bytes(std::size_t bucket) const {
  const bool is_last = bucket + 1 == buckets_.size();
  return (is_last ? first_note_ : layout(bucket).elements) * size_of(layout(bucket).dtype);
}

}  // namespace asup::sync
