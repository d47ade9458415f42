// What codes have lost of gradients, which is added to those of the next step: error feedback
// (Seide et al., 1-bit stochastic gradient descent, Interspeech 2014; Karimireddy et al., Error
// feedback fixes SignSGD, ICML 2019). Or what sparse gradients keep from step to step.
//
// It belongs to parameters, and moves with them where buckets are laid out anew. A step that is
// dropped leaves it as it was: what the step loses is written beside it, and takes its place when
// the step is applied. One thread at a time.
#pragma once

#include <vector>

#include "asup/sync/gradients/buckets.h"

namespace asup::sync {

class Residuals {
 public:
  // Of the buckets that travel in a code. Nothing is lost yet.
  Residuals(const Buckets& buckets, const std::vector<NamedTensor>& parameters);

  // By elements of a bucket's buffer.
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

  void move_to(const Buckets& buckets);
  // What is carried into the next step, by parameters that travel in a code: views. needs: between
  // two steps
  std::vector<NamedTensor> tensors() const;

 private:
  using ByBucket = std::vector<torch::Tensor>;  // flat; undefined where there is no code
  struct Place {
    std::size_t parameter, bucket;
    std::uint64_t first;  // element
  };
  static std::vector<Place> places_in(const Buckets& buckets);
  static ByBucket zeros(const Buckets& buckets);
  torch::Tensor view(const ByBucket& all, const Place& place) const;

  const std::vector<NamedTensor> parameters_;
  std::vector<Place> places_;
  ByBucket before_, after_;
  bool first_round_ = true;
  double unit_ = 0;
};

}  // namespace asup::sync
