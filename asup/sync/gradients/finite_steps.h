// Leaves steps out whose gradients hold infinities or NaN, or ends the job, as `non-finite` says.
//
// It looks once at each gradient, where an optimizer does so several times, and not at all where
// their norm is known. Ranks whose gradients are the same bits decide alike. Statistics of
// BatchNorm that the batch of such a step has spoiled become what they were after the step before.
// Used from the thread that trains.
#pragma once

#include <cstdint>
#include <vector>

#include "asup/base/non_finite.h"
#include "asup/sync/model/trained_model.h"

namespace asup::sync {

// In succession, after which nobody expects training to recover.
constexpr std::uint64_t kMostSkippedSteps = 10;

bool is_finite(const torch::Tensor& tensor);

class FiniteSteps {
 public:
  // The model must outlive it. `warns`: this rank tells people of steps that are left out.
  FiniteSteps(const TrainedModel& model, NonFinite policy, bool warns);

  void set_policy(NonFinite policy) { policy_ = policy; }

  // The norm of the gradients of the step to come.
  void found_norm(double norm);
  // Whether the optimizer is to take this step, counted from 0. Throws Error where the job is to
  // end instead.
  bool admits(std::uint64_t step);
  // The same where it is known whether all gradients are finite, and others end the job.
  bool admits(std::uint64_t step, bool finite);

  // Statistics are as they are to be.
  void keep_buffers();

  std::uint64_t skipped() const { return skipped_; }
  std::uint64_t in_succession() const { return in_succession_; }

 private:
  void mend_buffers();

  const TrainedModel& model_;
  NonFinite policy_;
  const bool warns_;
  const std::vector<torch::Tensor> buffers_;  // of floating points
  std::vector<torch::Tensor> kept_;
  bool known_finite_ = false;  // the gradients of the step to come
  std::uint64_t skipped_ = 0, in_succession_ = 0;
};

}  // namespace asup::sync
