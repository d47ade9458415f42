// The state of an optimizer as servers keep it: each slot of its rule (kernels/rule.h) laid out as
// the flat space, and how often each parameter was updated. It goes to servers and comes back in
// pieces (ps/client.h), or comes from the files that they leave (ps/snapshot.h). Used on one
// worker, from the thread that trains.
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
                             const layout::BucketSizes& sizes);

class ServerState {
 public:
  // Of the parameters that servers share, and where they lie in the flat space. The optimizer must
  // outlive this.
  ServerState(torch::optim::Optimizer& optimizer, const kernels::Rule& rule,
              std::vector<NamedTensor> shared, layout::Layout layout);
  // Of a model whose replica is or would be made with `options` and without a merge. Throws
  // BadInput for a model or optimizer that cannot be trained through servers.
  ServerState(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
              const ServerReplicaOptions& options);

  // What the optimizer has: how often each tensor of the layout was updated, 0 where it has no
  // state of it, and elements of a slot, zeros where it has none. The optimizer stays as it is from
  // the first call to the last.
  std::vector<std::uint64_t> updates();
  void read(std::size_t slot, layout::Range range, float* to) const;

  // The optimizer gets a state, in place of the one that it had: zeros, of tensors that were
  // updated so often, and then elements of a slot.
  void begin_write(std::span<const std::uint64_t> updates);
  void write(std::size_t slot, layout::Range range, const float* from);

  // The same from the files that begin with this path; the parameters stay as they are. Throws
  // BadInput where the files are not there, not whole, or of another model or optimizer; then
  // nothing has changed.
  void read_files(const std::string& path);

  // The optimizer has no state of these parameters any more: it is the servers', or begins anew.
  void forget() { state_.clear(); }

  // Those that servers move.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 private:
  template <typename Action>
  void for_parts(std::size_t slot, layout::Range range, const Action& action) const;

  const kernels::Rule rule_;
  const std::vector<NamedTensor> parameters_;
  const layout::Layout layout_;
  OptimizerState state_;
  // By parameter and slot, in memory that has the order of the flat space; none: zeros.
  std::vector<std::vector<torch::Tensor>> slots_;
};

}  // namespace asup::sync
