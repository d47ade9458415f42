// Ranks that compute one model together, each with a part of its large layers: the axis of tensor
// parallelism (Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using
// model parallelism", 2019, https://arxiv.org/abs/1909.08053).
//
//   std::shared_ptr<asup::Communicator> communicator = …;   // which nothing else uses
//   asup::parallel::TensorGroup group(communicator);
//   asup::parallel::ColumnParallelLinear up(width, 4 * width, group);
//   asup::parallel::RowParallelLinear down(4 * width, width, group);
//   y = down(torch::gelu(up(x)));                           // one all-reduce forward, one backward
//
// All ranks have the same samples, and run the same layers forward and backward in the same order.
// What is not cut (`x` and `y` above, norms, biases of row-parallel layers) is the same on all
// ranks, to the bit, and so are its gradients.
//
// A handle: copies share the group, which lives as long as one of them. On each rank used from the
// thread that runs forward, and from autograd's.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "asup/collective/communicator.h"

namespace asup::parallel {

class TensorGroup {
 public:
  // Throws BadInput without a communicator.
  explicit TensorGroup(std::shared_ptr<Communicator> communicator);

  int rank() const;
  int size() const;
  Communicator& communicator() const;

  // Memory that ranks of one host add up directly, for a tensor that is to be summed over them. It
  // is one for all: the tensor holds until the next one is asked for.
  torch::Tensor staging(torch::IntArrayRef shape, torch::ScalarType type) const;

  // Seconds that this rank has stood still in these calls, so far.
  double wait_seconds() const;

  // Over all ranks, in place; `what` opens the message of a failure. Throw JobFailed.
  void all_reduce(const torch::Tensor& tensor, const char* what, ReduceOp op = ReduceOp::sum) const;
  // The same beside the caller, until it waits.
  Work start_all_reduce(const torch::Tensor& tensor) const;
  void wait(Work& work, const char* what) const;
  // Of parts that differ in the last dimension alone, of which there are `whole` together, dealt
  // out by part_of(): all of it.
  torch::Tensor all_gather_last(const torch::Tensor& part, std::int64_t whole,
                                const char* what) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace asup::parallel
