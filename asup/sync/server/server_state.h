// The state of an optimizer on its way to servers and back, so that a run that changes between them
// and another way keeps its momentum. It goes through the files that servers save and resume from
// (ps/snapshot.h). Used on one worker, from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <string>

#include "asup/kernels/rule.h"
#include "asup/ps/shard.h"
#include "asup/sync/model/flat_space.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/sync/server/server_replica.h"

namespace asup::sync {

// What servers share of a model, whose replica is or would be made with `options` and without a
// merge. Everything must outlive this.
class ServerState {
 public:
  // Throws BadInput for a model or optimizer that cannot be trained through servers.
  ServerState(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
              const ServerReplicaOptions& options);

  // Writes the parameters and the optimizer's state as one server would that had come so far, for
  // ServerReplicaOptions::resume. Throws BadInput where it cannot.
  void write(const std::string& path) const;

  // Gives the optimizer the state of the files that begin with this path; the parameters stay as
  // they are. Throws BadInput where the files are not there, not whole, or of another model or
  // optimizer; then nothing has changed.
  void read(const std::string& path);

  // The optimizer has no state of these parameters any more: it is the servers', or begins anew.
  void forget() { state_.clear(); }

  // Those that servers move.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 private:
  ps::Shard shard() const;
  // Of a parameter's part of memory that is laid out as the flat space.
  torch::Tensor view_of(std::size_t parameter, float* space) const;

  const kernels::Rule rule_;
  const std::vector<NamedTensor> parameters_;
  const FlatSpace space_;
  OptimizerState state_;
};

}  // namespace asup::sync
