// Memory for the gradients of a list of parameters, laid out in buckets that travel one by one.
//
// The memory comes from the communicator, so that links reach it directly; each gradient is a view
// into it, with the parameter's strides. Where parameters are on a GPU, gradients lie in memory of
// the same layout there, and that of the communicator is its copy. Used from one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/layout/buckets.h"
#include "asup/sync/gradients/bucket_mirror.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

// The rules for buckets where the gradients that `takes` has chosen travel in fewer bytes; as they
// are where that is null, or chooses none, which `tells` has logged.
layout::BucketRules with_coded(layout::BucketRules rules, const std::vector<NamedTensor>& tensors,
                               const std::function<bool(const torch::Tensor&)>& takes, bool tells);

class Buckets {
 public:
  // Collective. `order` is the order in which gradients are expected (indices of parameters).
  // `notes`: elements at the end of the last bucket, for what ranks tell each other in passing. A
  // large gradient that comes last, or one in a code, is then followed by a bucket of notes only,
  // and so is any with `notes_alone`.
  Buckets(Communicator& communicator, const std::vector<NamedTensor>& parameters,
          std::span<const std::size_t> order, const layout::BucketRules& rules, std::size_t notes,
          bool notes_alone = false);

  std::size_t size() const { return buckets_.size(); }
  const layout::Layout& layout(std::size_t bucket) const { return buckets_[bucket].layout; }
  std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }
  Buffer buffer(std::size_t bucket) const;  // on the host
  bool coded(std::size_t bucket) const { return buckets_[bucket].coded; }

  // Whether gradients are on a GPU. Where they are not, they lie in the buffers, and what follows
  // does nothing.
  bool mirrored() const { return mirror_ != nullptr; }
  // A gradient has come by the current stream.
  void follow_stream() const;
  // The gradients of a bucket, without the notes, go into its buffer; whether they are there; and
  // back again.
  void to_host(std::size_t bucket) const;
  // The largest magnitude among its gradients: asked for before to_host(), and told when they are
  // there. Infinity where nobody was asked.
  void find_peak(std::size_t bucket) const;
  double peak(std::size_t bucket) const;
  bool has_come(std::size_t bucket) const { return !mirror_ || mirror_->has_come(bucket); }
  void wait_for(std::size_t bucket) const;
  void to_device(std::size_t bucket) const;
  // Whether the begin of a bucket is not what to_host() has copied.
  bool was_changed(std::size_t bucket) const;

  // Nobody needs what is in it any more: its memory is given back until it is touched.
  void empty(std::size_t bucket) const;

  // The gradient of a parameter. It keeps the memory alive.
  const torch::Tensor& view(std::size_t parameter) const { return views_[parameter]; }

  // Whether the parameter's gradient is the whole bucket, and may travel from where it is instead.
  bool alone(std::size_t parameter) const { return buckets_[bucket_of_[parameter]].alone; }

  // A value that the type of the last bucket does not have becomes infinite.
  void write_note(std::size_t note, double value) {
    notes_[static_cast<long>(note)].copy_(torch::scalar_tensor(value, torch::kDouble));
  }
  double note(std::size_t note) const { return notes_[static_cast<long>(note)].item<double>(); }

 private:
  std::size_t offset(const layout::Bucket& bucket, std::uint64_t element) const;
  std::size_t gradient_bytes(std::size_t bucket) const;

  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<BucketMirror> mirror_;  // none: gradients lie in memory_
  std::vector<layout::Bucket> buckets_;
  std::uint64_t first_note_ = 0;  // element of the last bucket
  std::vector<std::size_t> bucket_of_;
  std::vector<torch::Tensor> views_;
  torch::Tensor notes_;
};

}  // namespace asup::sync
