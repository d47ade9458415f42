// Gradients of weights that stages of several ranks share, in a pipeline that does not wait: they
// are exchanged beside the next batch, and their sum counts one update later. All ranks add up in
// the same order, so that the copies stay equal, bit by bit. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::parallel {

class LateGradients {
 public:
  // `all`: the pipeline's ranks, which outlives it; a communicator of their own is made of it,
  // since others' messages are on their way there. Collective.
  explicit LateGradients(Communicator& all);
  ~LateGradients();
  LateGradients(const LateGradients&) = delete;
  LateGradients& operator=(const LateGradients&) = delete;

  // Of which `ranks`, ascending, have a copy, this one among them.
  void add(torch::Tensor weight, std::vector<int> ranks);
  bool empty() const { return shared_.empty(); }

  // Takes the weights' gradients, and gives them those that were taken the time before, summed;
  // none the first time.
  void exchange();
  // Gives the weights the gradients that were taken last, summed.
  void settle();

 private:
  struct Shared {
    torch::Tensor weight;
    std::vector<int> ranks;
    std::vector<torch::Tensor> under_way{};  // by rank
    std::vector<Work> works{};
  };
  void finish(Shared& shared);
  void start(Shared& shared);

  const std::unique_ptr<Communicator> communicator_;
  std::vector<Shared> shared_;
};

}  // namespace asup::parallel
