// The state of an optimizer as servers keep it: each slot of its rules (kernels/rule.h) laid out as
// the flat space, and how often each parameter was updated. It goes to servers and comes back in
// pieces (ps/client.h). Used on one worker, from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <span>
#include <string>
#include <vector>

#include "asup/kernels/rule.h"
#include "asup/layout/buckets.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/sync/server/server_replica.h"

namespace asup::sync {

// The flat space that servers keep of f32 parameters whose gradients come to lie in Buckets of
// these sizes and without notes, in the order of layout::backwards().
layout::FlatSpace flat_space(const std::vector<NamedTensor>& parameters,
                             const layout::BucketRules& sizes);

class ServerState {
 public:
  // Of the parameters that servers share, and where they lie in the flat space. The optimizer must
  // outlive this. Throws BadInput where servers have no rule for it (rules_of.h).
  ServerState(torch::optim::Optimizer& optimizer, std::vector<NamedTensor> shared,
              layout::Layout layout);

  // What the optimizer has: the steps that each tensor of the layout has had, 0 where it has no
  // state of it, with the share of one that is under way, and elements of a slot, zeros where it
  // has none. The optimizer stays as it is from the first call to the last.
  std::vector<double> updates();
  void read(std::size_t slot, layout::Range range, float* to) const;

  // The optimizer gets a state, in place of the one that it had: zeros, of tensors that were
  // updated so often and lie in the range, and then elements of a slot.
  void begin_write(std::span<const double> updates, layout::Range range);
  void write(std::size_t slot, layout::Range range, const float* from);
  // All has been written: it goes to where the parameters are.
  void end_write();

  // The optimizer has no state of these parameters any more: it is the servers', or begins anew.
  void forget() { state_.clear(); }

 private:
  template <typename Action>
  void for_parts(std::size_t slot, layout::Range range, const Action& action) const;

  const std::vector<NamedTensor> parameters_;
  const std::vector<kernels::Rule> rules_;  // by parameter
  const std::size_t gathered_slot_;         // after those of all rules
  const layout::Layout layout_;
  OptimizerState state_;
  // By parameter and slot, in memory that has the order of the flat space; none: zeros.
  std::vector<std::vector<torch::Tensor>> slots_;
  std::vector<torch::Tensor> gathered_;  // by parameter
};

}  // namespace asup::sync
