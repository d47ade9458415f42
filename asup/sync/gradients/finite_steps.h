// Leaves steps out whose gradients hold infinities or NaN, or ends the job, as `non-finite` says.
//
// It is told whether they are (FiniteLook), or looks itself, once at each gradient, where an
// optimizer does so several times, and not at all where their norm is known. Statistics of
// BatchNorm that the batch of such a step has spoiled become what they were after the step before.
// Used from the thread that trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "asup/base/non_finite.h"
#include "asup/sync/model/trained_model.h"
#include "asup/sync/replica.h"

namespace asup::sync {

// Nobody expects training to recover after so many in succession, nor where more than half of the
// last ones, of some number at least, were skipped.
constexpr std::uint64_t kMostSkippedSteps = 10;
constexpr std::uint64_t kLastSteps = 100, kFewestSteps = 20;

// What is too much of it: "10 steps in succession", "11 of the last 20 steps". None while training
// may go on, and where the last step was not skipped.
std::optional<std::string> too_many_skipped(const ReplicaStats& stats);

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
  // The same where it is known whether all gradients are finite; alike on ranks that know alike.
  bool admits(std::uint64_t step, bool finite);
  // The same where others end the job.
  bool count(std::uint64_t step, bool finite);

  // Statistics are as they are to be.
  void keep_buffers();
  // They become what they were after the last step, where such steps are skipped: the batch that
  // has gone forward since will do so again.
  void take_buffers_back();

  std::uint64_t skipped() const { return skipped_; }
  std::uint64_t in_succession() const { return in_succession_; }
  std::uint64_t lately() const { return lately_; }  // skipped, of kLastSteps

 private:
  void remember(bool skipped);
  void mend_buffers();

  const TrainedModel& model_;
  NonFinite policy_;
  const bool warns_;
  // Statistics, and counts of batches.
  struct Buffers {
    std::vector<torch::Tensor> tensors, kept;
    void keep();
    void take_back();
  };
  Buffers floating_, others_;
  bool known_finite_ = false;  // the gradients of the step to come
  std::uint64_t skipped_ = 0, in_succession_ = 0, lately_ = 0;
  std::uint64_t counted_ = 0;                               // steps
  std::vector<bool> last_ = std::vector<bool>(kLastSteps);  // skipped: step i at i % kLastSteps
};

}  // namespace asup::sync
