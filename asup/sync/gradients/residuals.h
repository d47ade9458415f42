// What codes have lost of gradients, which is added to those of the next step: error feedback
// (Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; Karimireddy et al., Error
// feedback fixes SignSGD, ICML 2019). Or what sparse gradients keep from step to step.
//
// It belongs to parameters, and moves with them where buckets are laid out anew. A step that is
// dropped leaves it as it was: what the step loses is written beside it, and takes its place when
// the step is applied. Ranks may share it out (Compressor::keeps_of). One thread at a time.
#pragma once

#include <vector>

#include "asup/sync/compressors/compressor.h"
#include "asup/sync/gradients/buckets.h"

namespace asup::sync {

class Residuals {
 public:
  // Of the buckets that travel in a code. Nothing is lost yet. `compressor`: null, or it outlives
  // this.
  Residuals(const Buckets& buckets, const std::vector<NamedTensor>& parameters,
            Compressor* compressor = nullptr);

  // By elements of a bucket's buffer, those that this rank keeps.
  const float* carried(std::size_t bucket) const;
  float* lost(std::size_t bucket) const { return after_[bucket].data_ptr<float>(); }

  // Gradients leave times this number, of samples: what was lost of other batches is scaled to it.
  // Before the first round of a step.
  void set_unit(double unit);
  double unit() const { return unit_; }             // 0: nothing has left yet
  void restore_unit(double unit) { unit_ = unit; }  // of tensors()
  void next_round() { first_round_ = false; }       // of the same step
  void drop(std::size_t parameter);                 // what has left for it was of no use
  void end_step(bool applied);

  // Collective among those who share.
  void move_to(const Buckets& buckets);
  // What is carried into the next step, by parameters that travel in a code; zeros where another
  // rank keeps it. needs: between two steps
  std::vector<NamedTensor> tensors() const;
  // The same by parameter, undefined where it does not travel in a code.
  std::vector<torch::Tensor> by_parameter() const { return by_parameter(before_); }
  double norm() const;
  void clear();
  // This rank's, by their names behind the prefix, whatever of them others are to keep. Collective
  // among those who share.
  void restore(std::span<const NamedTensor> tensors, const std::string& prefix);

 private:
  using ByBucket = std::vector<torch::Tensor>;  // flat; undefined where there is no code
  struct Place {
    std::size_t parameter, bucket;
    std::uint64_t first;  // element
  };
  void take_layout(const Buckets& buckets);
  layout::Range kept_of(std::size_t bucket) const;
  bool keeps_whole(std::size_t bucket) const;
  ByBucket zeros() const;
  torch::Tensor view(const torch::Tensor& bucket, const Place& place) const;
  std::vector<torch::Tensor> by_parameter(const ByBucket& kept) const;
  ByBucket laid_out(const std::vector<torch::Tensor>& by_parameter) const;

  const std::vector<NamedTensor> parameters_;
  Compressor* const compressor_;
  std::vector<Place> places_;
  std::vector<std::size_t> sizes_;  // of buckets that travel in a code; of others 0
  ByBucket before_, after_;
  bool first_round_ = true;
  double unit_ = 0;
};

}  // namespace asup::sync
