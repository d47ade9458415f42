// The tensors that an optimizer keeps beside each parameter (momentum, Adam's moments), so that
// ranks can average them. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/kernels/rule.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

class OptimizerState {
 public:
  // Throws BadInput for an optimizer whose state is not known: torch's SGD, RMSprop, Adagrad, Adam
  // and AdamW and asup's rules are, and types derived from them. It must outlive this.
  OptimizerState(torch::optim::Optimizer& optimizer, std::vector<torch::Tensor> parameters);
  // Whether it is.
  static bool knows(const torch::optim::Optimizer& optimizer);

  // Of tensors that a parameter may have.
  static constexpr std::size_t kMostTensors = 3;
  static_assert(kMostTensors >= kernels::kMostStateSlots);
  // One of them, of a parameter by its index: undefined where it has none.
  torch::Tensor tensor(std::size_t parameter, std::size_t kind) const;

  // For each parameter and kind of tensor, the kinds of one parameter after the other: 1 and the
  // steps done where it is there, else 0.
  using Counts = std::vector<std::int64_t>;
  Counts counts() const;
  // The largest of all ranks'. Collective.
  Counts most_counts(Communicator& communicator) const;

  // By kind ("momentum"), each with a tensor a parameter: undefined where the optimizer has not
  // made it, as it does in a parameter's first step. A kind that no parameter has is left out, by
  // its own or the given counts.
  using Kinds = std::vector<std::vector<torch::Tensor>>;
  Kinds tensors() const { return tensors(counts()); }
  Kinds tensors(const Counts& counts) const;

  // Differs where ranks have tensors of other parameters, or stepped them another number of times.
  // A whole number that a double holds.
  double fingerprint() const;

  // Where a rank lacks tensors that others have, it gets zeros, and all count the most steps that
  // one of them did: a parameter that was not used everywhere. needs: most_counts()
  void complete(const Counts& most);

  // As before the first step.
  void reset();

  // What a parameter has, by its index, as the update rule that equals the optimizer (rules_of.h)
  // has it: a tensor a slot. There are none before its first step.
  struct Slots {
    std::int64_t updates = 0;  // done; 1 where the optimizer does not count them
    std::vector<torch::Tensor> tensors;
    // In the midst of a step of servers: what they have gathered of its gradients (kernels/rule.h),
    // and which share of its samples. Forgotten when the optimizer steps.
    torch::Tensor gathered{};
    double gathered_share = 0;
  };
  Slots slots(std::size_t parameter) const;
  // needs: kernels::state_slots(rule) tensors, of the parameter's shape
  void set_slots(std::size_t parameter, const kernels::Rule& rule, const Slots& slots);
  // Lets go of all of it.
  void clear();

  // As named_state() and set_named_state() have it, of a parameter, by its index.
  void name(std::size_t parameter, const std::string& its_name,
            std::vector<NamedTensor>& out) const;
  void set(std::size_t parameter, const std::string& its_name,
           const std::map<std::string, torch::Tensor>& tensors);
  std::vector<std::string> names(const std::string& parameter) const;

  struct Kind;

 private:
  torch::optim::OptimizerParamState* find(const torch::Tensor& parameter) const;

  torch::optim::Optimizer& optimizer_;
  const std::vector<torch::Tensor> parameters_;
  const Kind* kind_;
};

// The state as tensors by name, for a checkpoint: "exp_avg/conv1.weight" and, where steps are
// counted, "step/conv1.weight"; in the midst of a step of servers also "gathered/conv1.weight" and
// "gathered_share/conv1.weight". What the optimizer has not made is left out.
std::vector<NamedTensor> named_state(torch::optim::Optimizer& optimizer,
                                     const std::vector<NamedTensor>& parameters);
// Takes such tensors, by name, for the parameters of which there are some; the others' state stays
// as it is. Throws BadInput where one has not its parameter's shape.
void set_named_state(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                     const std::map<std::string, torch::Tensor>& tensors);
// The names that there may be.
std::vector<std::string> state_names(torch::optim::Optimizer& optimizer,
                                     const std::vector<NamedTensor>& parameters);

// Makes ranks' optimizers one: each tensor of the parameters' becomes the mean of all ranks', or
// that of one of them. Throws BadInput for an optimizer whose state is not known, JobFailed.
// Collective.
void average_state(Communicator& communicator, torch::optim::Optimizer& optimizer,
                   const std::vector<NamedTensor>& parameters);
void broadcast_state(Communicator& communicator, torch::optim::Optimizer& optimizer,
                     const std::vector<NamedTensor>& parameters, int root = 0);

}  // namespace asup::sync
