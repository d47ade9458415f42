// An optimizer of which each rank keeps the state of its part of the parameters, and moves that
// part alone.
//
// The program's optimizer stays the one whose groups and options count: while it steps, its groups
// hold this rank's parts in place of their parameters. Rules that move each element by itself take
// any part of a tensor; LARS and LAMB, which need a tensor's norm, take whole ones, and so do
// optimizers that are derived from torch's. So a step gives the bits that it gives on all ranks.
//
// Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/sharded/sharded_parameters.h"

namespace asup::sync {

// Throws BadInput for an optimizer whose state is not known, which cannot be cut.
void require_shardable(const torch::optim::Optimizer& optimizer);

// Whether the optimizer may have any part of a tensor.
bool moves_elements_alone(const torch::optim::Optimizer& optimizer);

// All parameters of a type in one bucket: what they are laid out in where gradients are not cut.
std::vector<layout::Bucket> one_bucket_a_type(const std::vector<NamedTensor>& parameters);

class ShardedOptimizer {
 public:
  // Collective. Of the state that the optimizer has, which is the same on all ranks, this rank's
  // part is kept. `parameters`: those that need a gradient. The optimizer must outlive this.
  ShardedOptimizer(Communicator& communicator, torch::optim::Optimizer& optimizer,
                   const std::vector<NamedTensor>& parameters, std::vector<layout::Bucket> buckets);
  ~ShardedOptimizer();  // what it has kept goes
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  ShardedParameters& parameters() { return parameters_; }

  // This rank's part of each gradient; undefined where there is none on any rank.
  using GradientOf = std::function<torch::Tensor(const layout::Piece&)>;
  // Moves this rank's part.
  void step(const GradientOf& gradient_of);

  // See Replica. What was gathered is there until the next step or fetch. Collective.
  std::vector<NamedTensor> fetch_state();
  void gather_state();

 private:
  class OwnParts;

  void keep_own_state();
  void assemble(bool everywhere);
  void collect(const torch::Tensor& own, const torch::Tensor& whole, std::size_t parameter,
               bool everywhere);
  int keeper_of(std::size_t parameter) const;
  void drop_gathered();
  std::vector<torch::Tensor> tensors() const;

  Communicator& communicator_;
  torch::optim::Optimizer& optimizer_;
  ShardedParameters parameters_;
  std::vector<torch::Tensor> parts_;  // by parameter; undefined where this rank has none
  bool gathered_ = false;             // all of the state lies in the optimizer too
};

}  // namespace asup::sync
