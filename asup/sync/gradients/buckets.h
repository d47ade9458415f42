// Memory for the gradients of a list of parameters, laid out in buckets that travel one by one.
//
// The memory comes from the communicator, so that links reach it directly; each gradient is a view
// into it, with the parameter's strides. Used from one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/layout/buckets.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

class Buckets {
 public:
  // Collective. `order` is the order in which gradients are expected (indices of parameters).
  // `notes`: elements at the end of the last bucket, for what ranks tell each other in passing. A
  // large gradient that comes last is then followed by a bucket of notes only.
  Buckets(Communicator& communicator, const std::vector<NamedTensor>& parameters,
          std::span<const std::size_t> order, const layout::BucketSizes& sizes, std::size_t notes);

  std::size_t size() const { return buckets_.size(); }
  const layout::Layout& layout(std::size_t bucket) const { return buckets_[bucket].layout; }
  std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }
  Buffer buffer(std::size_t bucket) const;

  // The gradient of a parameter. It keeps the memory alive.
  const torch::Tensor& view(std::size_t parameter) const { return views_[parameter]; }

  // Whether the parameter's gradient is the whole bucket, and may travel from where it is instead.
  bool alone(std::size_t parameter) const { return buckets_[bucket_of_[parameter]].alone; }

  void write_note(std::size_t note, double value) { notes_[static_cast<long>(note)] = value; }
  double note(std::size_t note) const { return notes_[static_cast<long>(note)].item<double>(); }

 private:
  std::byte* address(const layout::Bucket& bucket, std::uint64_t element) const;

  std::shared_ptr<SharedMemory> memory_;
  std::vector<layout::Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;
  std::vector<torch::Tensor> views_;
  torch::Tensor notes_;
};

}  // namespace asup::sync
