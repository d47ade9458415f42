#include "asup/sync/server/server_state.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"
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

// Those that have elements, in the order of the flat space's layout.
std::vector<std::size_t> order_in(const FlatSpace& space) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < space.parameters.size(); ++i)
    if (!space.parameters[i].empty()) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return space.parameters[a].begin < space.parameters[b].begin;
  });
  return order;
}

// Memory in which the elements have the order of view_like()'s.
torch::Tensor zeros_in_order(const torch::Tensor& parameter) {
  const auto options = torch::TensorOptions(torch::kFloat32);
  return parameter.is_non_overlapping_and_dense()
             ? torch::empty_strided(parameter.sizes(), parameter.strides(), options).zero_()
             : torch::zeros(parameter.sizes(), options);
}

torch::Tensor in_order(const torch::Tensor& parameter, const torch::Tensor& state) {
  const bool is_so = parameter.is_non_overlapping_and_dense()
                         ? state.strides() == parameter.strides()
                         : state.is_contiguous();
  return is_so && state.dtype() == torch::kFloat32 ? state : zeros_in_order(parameter).copy_(state);
}

}  // namespace

ServerState::ServerState(torch::optim::Optimizer& optimizer, const kernels::Rule& rule,
                         std::vector<NamedTensor> shared, FlatSpace space)
    : rule_(rule),
      parameters_(std::move(shared)),
      space_(std::move(space)),
      order_(order_in(space_)),
      state_(optimizer, tensors_of(parameters_)) {}

ServerState::ServerState(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                         const ServerReplicaOptions& options)
    : ServerState(optimizer, rule_of(optimizer),
                  share(TrainedModel(module, optimizer), options.local).shared,
                  flat_space(share(TrainedModel(module, optimizer), options.local).shared,
                             options.bucket_sizes())) {}

// A parameter that lacks a tensor, as before its first step, begins anew.
std::vector<std::uint64_t> ServerState::updates() {
  torch::NoGradGuard no_grad;
  std::vector<std::uint64_t> updates;
  slots_.assign(parameters_.size(), {});
  for (const std::size_t i : order_) {
    const OptimizerState::Slots slots = state_.slots(i);
    const bool is_whole =
        !slots.tensors.empty() && slots.tensors.size() == kernels::state_slots(rule_);
    updates.push_back(is_whole ? static_cast<std::uint64_t>(slots.updates) : 0);
    if (!is_whole) continue;
    for (const torch::Tensor& tensor : slots.tensors)
      slots_[i].push_back(in_order(parameters_[i].tensor, tensor));
  }
  return updates;
}

// Calls action(elements of the tensor, how many, where in the range they are) for each parameter
// that has this slot and elements in the range.
template <typename Action>
void ServerState::for_parts(std::size_t slot, ps::Range range, const Action& action) const {
  auto at = std::partition_point(order_.begin(), order_.end(), [&](std::size_t i) {
    return space_.parameters[i].end <= range.begin;
  });
  for (; at != order_.end() && space_.parameters[*at].begin < range.end; ++at) {
    const ps::Range parameter = space_.parameters[*at];
    const ps::Range part = ps::intersection(parameter, range);
    if (slots_[*at].size() <= slot) continue;
    const torch::Tensor& tensor = slots_[*at][slot];
    action(tensor.data_ptr<float>() + (part.begin - parameter.begin), part.size(),
           part.begin - range.begin);
  }
}

void ServerState::read(std::size_t slot, ps::Range range, float* to) const {
  std::fill(to, to + range.size(), 0.0f);
  for_parts(slot, range, [&](const float* state, std::uint64_t count, std::uint64_t offset) {
    std::memcpy(to + offset, state, count * sizeof(float));
  });
}

void ServerState::begin_write(std::span<const std::uint64_t> updates) {
  torch::NoGradGuard no_grad;
  check(updates.size() == order_.size(), "updates of {} parameters, and there are {}",
        updates.size(), order_.size());
  state_.clear();
  slots_.assign(parameters_.size(), {});
  const std::size_t count = kernels::state_slots(rule_);
  for (std::size_t k = 0; k < order_.size(); ++k) {
    if (updates[k] == 0 || count == 0) continue;
    const std::size_t i = order_[k];
    for (std::size_t slot = 0; slot < count; ++slot)
      slots_[i].push_back(zeros_in_order(parameters_[i].tensor));
    state_.set_slots(i, rule_, {static_cast<std::int64_t>(updates[k]), slots_[i]});
  }
}

void ServerState::write(std::size_t slot, ps::Range range, const float* from) {
  for_parts(slot, range, [&](float* state, std::uint64_t count, std::uint64_t offset) {
    std::memcpy(state, from + offset, count * sizeof(float));
  });
}

// All of it as one server's.
void ServerState::read_files(const std::string& path) {
  const ps::Range whole{0, space_.layout.elements};
  ps::Shard shard(whole, rule_, space_.layout, {});
  ps::load_shard(shard, path, space_.layout.elements);
  std::vector<std::uint64_t> updates;
  for (const std::size_t i : order_) updates.push_back(shard.updates_of(space_.parameters[i]));
  begin_write(updates);
  for (std::size_t slot = 0; slot < shard.state().size(); ++slot)
    write(slot, whole, shard.state()[slot].data());
}

}  // namespace asup::sync
