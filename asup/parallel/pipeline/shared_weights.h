// Weights that stages of several ranks use, as GPT-2's embedding and its head do: each rank has a
// copy, and the copies stay equal, bit by bit. Used from the thread that trains; collective.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "asup/collective/communicator.h"
#include "asup/parallel/pipeline/stage_tensors.h"

namespace asup::parallel {

class SharedWeights {
 public:
  // The communicator, whose ranks are the pipeline's, must outlive it.
  SharedWeights(Communicator& communicator, const StageTensors& tensors);

  // The copies become the first rank's.
  void make_equal();
  // Backward begins, whose gradients are added to those that are there: where these are sums, they
  // count on the first rank alone.
  void begin_backward();
  // The gradients become their sum over ranks, added in the order of ranks.
  void sum_gradients();

 private:
  struct Shared {
    torch::Tensor tensor;
    std::vector<int> ranks;
    bool learns;
  };

  Communicator& communicator_;
  std::vector<Shared> shared_;  // those that this rank has
  bool are_sums_ = false;       // their gradients
};

}  // namespace asup::parallel
