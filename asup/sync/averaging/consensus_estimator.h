// How far models are apart, found from a few of their elements, without their mean: for ways in
// which no rank ever sees all models. Used from the thread that trains; collective.
//
// Models of up to 4096 elements are looked at wholly, of larger ones so many elements, drawn once
// and the same on all ranks: 64 kB travel, beside computation.
#pragma once

#include <torch/torch.h>

#include <optional>

#include "asup/collective/communicator.h"

namespace asup::sync {

class ConsensusEstimator {
 public:
  // The communicator must outlive it. `elements` of a model.
  ConsensusEstimator(Communicator& communicator, std::int64_t elements);
  ~ConsensusEstimator();
  ConsensusEstimator(const ConsensusEstimator&) = delete;
  ConsensusEstimator& operator=(const ConsensusEstimator&) = delete;

  // needs: collect() since the last time. `model`: of one dimension.
  void start(const torch::Tensor& model);

  // As estimated: the mean over ranks of |x_i - mean|^2, and |mean|^2.
  struct Drift {
    double squared = 0, mean_squared = 0;
  };
  // What was started last; nothing where nothing was. Throws JobFailed.
  std::optional<Drift> collect();
  // Gives up what was started last.
  void drop();

 private:
  Communicator& communicator_;
  torch::Tensor chosen_;  // indices of elements; none: all
  torch::Tensor sums_;    // of the elements, and of their squares
  Work work_;
  bool under_way_ = false;
};

}  // namespace asup::sync
