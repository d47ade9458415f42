// What a replica keeps in step: a module's tensors and the optimizer that moves them.
//
// Refuses what cannot be averaged, and notices when the program changes, after the replica was
// made, what has to be averaged. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "asup/optim/fused_step.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

class TrainedModel {
 public:
  // Throws BadInput, naming the parameter. Both must outlive this.
  TrainedModel(const torch::nn::Module& module, torch::optim::Optimizer& optimizer);

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  // Parameters that require a gradient.
  const std::vector<NamedTensor>& trainable() const { return trainable_; }
  torch::optim::Optimizer& optimizer() const { return optimizer_; }
  // The optimizer's, in one pass where it can be.
  void step() const { optim::step(optimizer_); }
  // That all parameters are on.
  torch::Device device() const { return trainable_.front().tensor.device(); }

  // Throws Error where a parameter was unfrozen, or the optimizer was given one that the module
  // does not have: its gradient would not be averaged. Freezing late only costs time and is warned
  // of.
  void check_unchanged();

 private:
  void check_optimizer() const;

  // Constant after construction.
  torch::optim::Optimizer& optimizer_;
  const std::vector<NamedTensor> parameters_, buffers_, trainable_;

  std::vector<bool> requires_grad_;  // of parameters_, as last seen
  std::size_t optimizer_size_ = 0;   // parameters it had when they were last checked
};

}  // namespace asup::sync
