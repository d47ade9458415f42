// The ranks that have the same stage of a pipeline, and of each of its large layers a part: what
// counts once, though all of them have it, and what is whole only together. Used from the thread
// that trains.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

#include "asup/collective/communicator.h"
#include "asup/parallel/tensor_cut.h"

namespace asup::parallel {

class TensorAxis {
 public:
  // `group`: of the ranks that have the parts of what is cut here, which outlives it; null: of
  // nobody. Throws BadInput where the model is cut over another number of ranks.
  TensorAxis(const torch::nn::Module& model, Communicator* group);

  // Whether this rank counts a parameter: each counts what is cut, the first one what is not.
  bool counts(const std::string& parameter) const;
  // Throws BadInput where something is cut and the group is not known: `without` it.
  void require_group(const char* without) const;
  // Of all ranks' numbers, on all of them. Collective.
  void sum(double& number, const char* what) const;
  // What is cut becomes whole on the group's first rank; others are left without anything.
  // Collective.
  void put_together(std::map<std::string, torch::Tensor>& tensors) const;

 private:
  // Constant after construction.
  std::map<std::string, TensorCut> cuts_;  // of what is a part here, by parameters' names
  Communicator* const group_;
};

}  // namespace asup::parallel
