#include "asup/sync/server/server_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "asup/base/error.h"
#include "asup/sync/model/device.h"
#include "asup/sync/server/rules_of.h"

namespace asup::sync {
namespace {

std::vector<torch::Tensor> tensors_of(const std::vector<NamedTensor>& parameters) {
  std::vector<torch::Tensor> tensors;
  for (const NamedTensor& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
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
  return is_so && state.dtype() == torch::kFloat32 ? on_host(state)
                                                   : zeros_in_order(parameter).copy_(state);
}

std::vector<kernels::Rule> rules_by_parameter(const torch::optim::Optimizer& optimizer,
                                              const std::vector<NamedTensor>& parameters) {
  const std::vector<kernels::Rule> rules = rules_of(optimizer);
  std::vector<kernels::Rule> by_parameter;
  for (const std::uint32_t group : groups_of(optimizer, parameters))
    by_parameter.push_back(rules[group]);
  return by_parameter;
}

std::size_t most_slots(const torch::optim::Optimizer& optimizer) {
  std::size_t most = 0;
  for (const kernels::Rule& rule : rules_of(optimizer))
    most = std::max(most, kernels::state_slots(rule));
  return most;
}

}  // namespace

layout::FlatSpace flat_space(const std::vector<NamedTensor>& parameters,
                             const layout::BucketRules& sizes) {
  return layout::flat_space(
      layout::lay_out(shapes_of(parameters), layout::backwards(parameters.size()), sizes));
}

ServerState::ServerState(torch::optim::Optimizer& optimizer, std::vector<NamedTensor> shared,
                         layout::Layout layout)
    : parameters_(std::move(shared)),
      rules_(rules_by_parameter(optimizer, parameters_)),
      gathered_slot_(most_slots(optimizer)),
      layout_(std::move(layout)),
      state_(optimizer, tensors_of(parameters_)) {}

// A parameter that lacks a tensor, as before its first step, begins anew.
std::vector<double> ServerState::updates() {
  torch::NoGradGuard no_grad;
  std::vector<double> updates;
  slots_.assign(parameters_.size(), {});
  gathered_.assign(parameters_.size(), {});
  for (const auto& tensor : layout_.tensors) {
    const std::size_t i = tensor.index;
    const OptimizerState::Slots slots = state_.slots(i);
    const bool is_whole =
        !slots.tensors.empty() && slots.tensors.size() == kernels::state_slots(rules_[i]);
    updates.push_back(is_whole ? static_cast<double>(slots.updates) + slots.gathered_share : 0);
    if (!is_whole) continue;
    if (slots.gathered.defined()) gathered_[i] = in_order(parameters_[i].tensor, slots.gathered);
    for (const torch::Tensor& slot : slots.tensors)
      slots_[i].push_back(in_order(parameters_[i].tensor, slot));
  }
  return updates;
}

// Calls action(elements of the tensor, how many, where in the range they are) for each parameter
// that has this slot and elements in the range.
template <typename Action>
void ServerState::for_parts(std::size_t slot, layout::Range range, const Action& action) const {
  for (const layout::Part& part : layout::parts_in(layout_, range)) {
    const std::size_t i = layout_.tensors[part.tensor].index;
    const torch::Tensor found = slot == gathered_slot_    ? gathered_[i]
                                : slot < slots_[i].size() ? slots_[i][slot]
                                                          : torch::Tensor();
    if (found.defined())
      action(found.data_ptr<float>() + part.offset, part.range.size(),
             part.range.begin - range.begin);
  }
}

void ServerState::read(std::size_t slot, layout::Range range, float* to) const {
  std::fill(to, to + range.size(), 0.0f);
  for_parts(slot, range, [&](const float* state, std::uint64_t count, std::uint64_t offset) {
    std::memcpy(to + offset, state, count * sizeof(float));
  });
}

void ServerState::begin_write(std::span<const double> updates, layout::Range range) {
  torch::NoGradGuard no_grad;
  const auto& tensors = layout_.tensors;
  check(updates.size() == tensors.size(), "updates of {} parameters, and there are {}",
        updates.size(), tensors.size());
  state_.clear();
  slots_.assign(parameters_.size(), {});
  gathered_.assign(parameters_.size(), {});
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const std::size_t i = tensors[k].index;
    const std::size_t count = kernels::state_slots(rules_[i]);
    if (updates[k] == 0 || count == 0 || !range.contains(tensors[k].range)) continue;
    for (std::size_t slot = 0; slot < count; ++slot)
      slots_[i].push_back(zeros_in_order(parameters_[i].tensor));
    const double whole = std::floor(updates[k]);
    if (updates[k] > whole && kernels::gathers_gradients(rules_[i]))
      gathered_[i] = zeros_in_order(parameters_[i].tensor);
    state_.set_slots(
        i, rules_[i],
        {static_cast<std::int64_t>(whole), slots_[i], gathered_[i], updates[k] - whole});
  }
}

void ServerState::end_write() {
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].empty() || !travels_as_copy(parameters_[i].tensor.device())) continue;
    const auto on_device = [&](const torch::Tensor& slot) {
      return torch::empty_like(parameters_[i].tensor.detach()).copy_(slot);
    };
    OptimizerState::Slots slots = state_.slots(i);
    slots.tensors.clear();
    for (const torch::Tensor& slot : slots_[i]) slots.tensors.push_back(on_device(slot));
    if (slots.gathered.defined()) slots.gathered = on_device(slots.gathered);
    state_.set_slots(i, rules_[i], slots);
  }
}

void ServerState::write(std::size_t slot, layout::Range range, const float* from) {
  for_parts(slot, range, [&](float* state, std::uint64_t count, std::uint64_t offset) {
    std::memcpy(state, from + offset, count * sizeof(float));
  });
}

}  // namespace asup::sync
