#include "asup/optim/fused_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <typeinfo>

#include "asup/base/timeline.h"
#include "asup/kernels/sparse.h"
#include "asup/tensors/optimizer_state_place.h"

namespace asup::optim {
namespace {

using torch::Tensor;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Tensors = std::vector<Tensor>;

bool lies_as(const Tensor& tensor, const Tensor& parameter) {
  return tensor.layout() == torch::kStrided && tensor.sizes() == parameter.sizes() &&
         tensor.strides() == parameter.strides() && tensor.device() == parameter.device() &&
         tensor.scalar_type() == parameter.scalar_type();
}

bool fits(const torch::optim::SGDParamState& state, const Tensor& parameter) {
  return !state.momentum_buffer().defined() || lies_as(state.momentum_buffer(), parameter);
}

template <typename AdamState>
bool fits(const AdamState& state, const Tensor& parameter) {
  const auto fits = [&](const Tensor& tensor) {
    return !tensor.defined() || lies_as(tensor, parameter);
  };
  return fits(state.exp_avg()) && fits(state.exp_avg_sq()) && fits(state.max_exp_avg_sq());
}

// torch's code for processors takes 16-bit floats for wider ones (2.13).
bool has_code_for(const Tensor& parameter) {
  return parameter.scalar_type() == torch::kFloat32 || parameter.scalar_type() == torch::kFloat64 ||
         (parameter.is_cuda() && parameter.is_floating_point());
}

// All that a step moves.
Tensors moved_by(const OptimizerParamGroup& group) {
  Tensors moved;
  for (const Tensor& parameter : group.params())
    if (parameter.grad().defined()) moved.push_back(parameter);
  return moved;
}

template <typename State>
bool can_move(const Optimizer& optimizer, const OptimizerParamGroup& group) {
  const Tensors moved = moved_by(group);
  return std::all_of(moved.begin(), moved.end(), [&](const Tensor& parameter) {
    const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
    return has_code_for(parameter) && parameter.is_non_overlapping_and_dense() &&
           parameter.device() == moved.front().device() &&
           parameter.scalar_type() == moved.front().scalar_type() &&
           lies_as(parameter.grad(), parameter) &&
           (state == optimizer.state().end() ||
            fits(static_cast<const State&>(*state->second), parameter));
  });
}

template <typename State>
State& state_of(Optimizer& optimizer, const Tensor& parameter) {
  auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// Of parameters that one call moves.
struct Call {
  Tensors parameters, gradients, momenta, squares, peaks;

  void add(const Tensor& parameter) {
    parameters.push_back(parameter);
    gradients.push_back(parameter.grad());
  }
};

// A first step takes the gradient for the momentum.
void move(Optimizer& optimizer, const OptimizerParamGroup& group,
          const torch::optim::SGDOptions& options) {
  std::map<bool, Call> calls;  // by whether it is their first step
  for (const Tensor& parameter : moved_by(group)) {
    if (options.momentum() == 0) {
      calls[false].add(parameter);
      continue;
    }
    auto& state = state_of<torch::optim::SGDParamState>(optimizer, parameter);
    const bool is_first = !state.momentum_buffer().defined();
    if (is_first) state.momentum_buffer(torch::empty_like(parameter));
    calls[is_first].add(parameter);
    calls[is_first].momenta.push_back(state.momentum_buffer());
  }
  for (const auto& [is_first, call] : calls)
    at::_fused_sgd_(call.parameters, call.gradients, call.momenta, options.weight_decay(),
                    options.momentum(), options.lr(), options.dampening(), options.nesterov(),
                    /*maximize=*/false, is_first);
}

template <typename State, typename Options, typename Move>
void move_as_adam(Optimizer& optimizer, const OptimizerParamGroup& group, const Options& options,
                  const Move& move) {
  std::map<std::int64_t, Call> calls;  // by the number of their step
  for (const Tensor& parameter : moved_by(group)) {
    State& state = state_of<State>(optimizer, parameter);
    if (!state.exp_avg().defined()) {
      state.exp_avg(torch::zeros_like(parameter));
      state.exp_avg_sq(torch::zeros_like(parameter));
      if (options.amsgrad()) state.max_exp_avg_sq(torch::zeros_like(parameter));
    }
    state.step(state.step() + 1);
    Call& call = calls[state.step()];
    call.add(parameter);
    call.momenta.push_back(state.exp_avg());
    call.squares.push_back(state.exp_avg_sq());
    if (options.amsgrad()) call.peaks.push_back(state.max_exp_avg_sq());
  }
  const auto [beta1, beta2] = options.betas();
  for (const auto& [step, call] : calls) {
    const auto where = torch::dtype(torch::kFloat32).device(call.parameters.front().device());
    const Tensors steps(call.parameters.size(), torch::full({}, static_cast<double>(step), where));
    move(call.parameters, call.gradients, call.momenta, call.squares, call.peaks, steps,
         options.lr(), beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad(),
         /*maximize=*/false);
  }
}

void move(Optimizer& optimizer, const OptimizerParamGroup& group,
          const torch::optim::AdamOptions& options) {
  move_as_adam<torch::optim::AdamParamState>(optimizer, group, options,
                                             [](auto&&... all) { at::_fused_adam_(all...); });
}

void move(Optimizer& optimizer, const OptimizerParamGroup& group,
          const torch::optim::AdamWOptions& options) {
  move_as_adam<torch::optim::AdamWParamState>(optimizer, group, options,
                                              [](auto&&... all) { at::_fused_adamw_(all...); });
}

template <typename Class, typename Options, typename State>
bool step_of(Optimizer& optimizer) {
  if (typeid(optimizer) != typeid(Class)) return false;
  const auto& groups = optimizer.param_groups();
  if (!std::all_of(groups.begin(), groups.end(),
                   [&](const auto& group) { return can_move<State>(optimizer, group); }))
    return false;
  for (const OptimizerParamGroup& group : groups)
    move(optimizer, group, static_cast<const Options&>(group.options()));
  return true;
}

// Without a step that moves all of them.
bool can_move_few(const OptimizerParamGroup& group) {
  const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
  if (options.momentum() != 0 || options.weight_decay() != 0) return false;
  const Tensors moved = moved_by(group);
  return std::all_of(moved.begin(), moved.end(), [](const Tensor& parameter) {
    return parameter.is_cpu() && parameter.scalar_type() == torch::kFloat32 &&
           parameter.is_non_overlapping_and_dense() && lies_as(parameter.grad(), parameter);
  });
}

// Whether a step is some parameter's first one.
bool makes_state(const Optimizer& optimizer) {
  const auto is_new = [&](const Tensor& parameter) {
    return parameter.grad().defined() &&
           optimizer.state().count(parameter.unsafeGetTensorImpl()) == 0;
  };
  const auto& groups = optimizer.param_groups();
  return std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
    return std::any_of(group.params().begin(), group.params().end(), is_new);
  });
}

}  // namespace

bool step_where_not_zero(Optimizer& optimizer) {
  const auto& groups = optimizer.param_groups();
  if (typeid(optimizer) != typeid(torch::optim::SGD) ||
      !std::all_of(groups.begin(), groups.end(), can_move_few))
    return false;
  for (const OptimizerParamGroup& group : groups)
    for (const Tensor& parameter : moved_by(group))
      kernels::add_where_not_zero(parameter.data_ptr<float>(), parameter.grad().data_ptr<float>(),
                                  static_cast<float>(-group.options().get_lr()),
                                  static_cast<std::size_t>(parameter.numel()));
  return true;
}

bool step_at_once(Optimizer& optimizer) {
  using namespace torch::optim;
  torch::NoGradGuard no_grad;
  return step_of<SGD, SGDOptions, SGDParamState>(optimizer) ||
         step_of<Adam, AdamOptions, AdamParamState>(optimizer) ||
         step_of<AdamW, AdamWOptions, AdamWParamState>(optimizer);
}

void step(Optimizer& optimizer) {
  const TimelineScope scope(Activity::optimizer);
  std::optional<MakesOptimizerState> first;
  if (makes_state(optimizer)) first.emplace();
  if (!step_at_once(optimizer)) optimizer.step();
}

}  // namespace asup::optim
