#include "asup/sync/server/server_state.h"

#include "asup/ps/snapshot.h"
#include "asup/sync/model/sharing.h"
#include "asup/sync/model/trained_model.h"
#include "asup/sync/server/rule_of.h"

namespace asup::sync {
namespace {

std::vector<torch::Tensor> tensors_of(const std::vector<NamedTensor>& parameters) {
  std::vector<torch::Tensor> tensors;
  for (const NamedTensor& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace

ServerState::ServerState(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                         const ServerReplicaOptions& options)
    : rule_(rule_of(optimizer)),
      parameters_(share(TrainedModel(module, optimizer), options.local).shared),
      space_(flat_space(parameters_, options.bucket_sizes())),
      state_(optimizer, tensors_of(parameters_)) {}

// All of it as one server's, with updates counted for each parameter.
ps::Shard ServerState::shard() const {
  std::vector<std::uint64_t> cuts;
  for (const ps::Range& range : space_.parameters) cuts.push_back(range.begin);
  return {{0, space_.layout.elements}, rule_, space_.layout, std::move(cuts)};
}

torch::Tensor ServerState::view_of(std::size_t parameter, float* space) const {
  return view_like(parameters_[parameter].tensor, space + space_.parameters[parameter].begin,
                   nullptr);
}

// Servers count updates by what workers push together, and parameters are few at a time for them:
// all get the count of the one that was updated most.
void ServerState::write(const std::string& path) const {
  torch::NoGradGuard no_grad;
  ps::Shard shard = this->shard();
  std::int64_t updates = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    view_of(i, shard.parameters()).copy_(parameters_[i].tensor);
    const OptimizerState::Slots slots = state_.slots(i);
    updates = std::max(updates, slots.updates);
    for (std::size_t slot = 0; slot < std::min(slots.tensors.size(), shard.state().size()); ++slot)
      view_of(i, shard.state()[slot].data()).copy_(slots.tensors[slot]);
  }
  for (ps::Shard::Segment& segment : shard.segments())
    segment.updates = static_cast<std::uint64_t>(updates);
  ps::write_shard(shard, /*version=*/0, ps::shard_file(path, 0, 1));
}

void ServerState::read(const std::string& path) {
  torch::NoGradGuard no_grad;
  ps::Shard shard = this->shard();
  ps::load_shard(shard, path, space_.layout.elements);
  state_.clear();
  if (shard.state().empty()) return;
  for (const ps::Shard::Segment& segment : shard.segments())
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (space_.parameters[i].begin != segment.range.begin || segment.updates == 0) continue;
      OptimizerState::Slots slots{static_cast<std::int64_t>(segment.updates), {}};
      for (const ps::Floats& slot : shard.state())
        slots.tensors.push_back(
            torch::empty_like(parameters_[i].tensor).copy_(view_of(i, slot.data())));
      state_.set_slots(i, rule_, slots);
    }
}

}  // namespace asup::sync
