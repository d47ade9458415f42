#include "asup/optim/rule_optimizer.h"

#include <ATen/Parallel.h>

#include <array>

#include "asup/base/error.h"
#include "asup/kernels/update.h"
#include "asup/optim/torch_rules.h"

namespace asup::optim {
namespace {

// Elements that one thread takes at a time, and that norms are first added up over: fixed, so that
// bits do not depend on the number of threads.
constexpr std::int64_t kPiece = 1 << 16;

// Calls visit(piece, begin, size) for all pieces, on torch's threads.
template <typename Visit>
void for_each_piece(std::int64_t count, const Visit& visit) {
  const std::int64_t pieces = (count + kPiece - 1) / kPiece;
  at::parallel_for(0, pieces, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece)
      visit(static_cast<std::size_t>(piece), piece * kPiece,
            static_cast<std::size_t>(std::min(kPiece, count - piece * kPiece)));
  });
}

using Slots = std::array<float*, kernels::kMostStateSlots>;

Slots slots_at(const RuleState& state, std::int64_t begin) {
  Slots slots{};
  for (std::size_t i = 0; i < state.slots.size(); ++i)
    slots[i] = state.slots[i].data_ptr<float>() + begin;
  return slots;
}

// The whole tensor's, for rules that want it.
double trust_ratio(const kernels::Rule& rule, const kernels::UpdateStep& step,
                   const float* parameters, const float* gradient, const RuleState& state,
                   std::int64_t count) {
  if (!kernels::needs_whole_tensors(rule)) return 1;
  std::vector<kernels::SquareSums> sums(static_cast<std::size_t>((count + kPiece - 1) / kPiece));
  for_each_piece(count, [&](std::size_t piece, std::int64_t begin, std::size_t size) {
    const kernels::GradientSource source{gradient + begin};
    sums[piece] = kernels::sums_for_ratio(rule, step, parameters + begin,
                                          slots_at(state, begin).data(), {&source, 1}, size);
  });
  kernels::SquareSums whole;
  for (const kernels::SquareSums& piece : sums) whole += piece;
  return kernels::trust_ratio(rule, whole);
}

void require_dense_floats(const torch::Tensor& tensor, const char* what,
                          const kernels::Rule& rule) {
  if (tensor.layout() == torch::kStrided && tensor.scalar_type() == torch::kFloat32 &&
      (tensor.is_cpu() || tensor.is_cuda()))
    return;
  throw BadInput(fmt::format(
      "{} takes dense f32 tensors on the CPU or a GPU; a {} is {} {} on {}: convert it, or use "
      "an optimizer of torch::optim",
      name_of(rule.kind), what, c10::str(tensor.layout()), c10::toString(tensor.scalar_type()),
      tensor.device().str()));
}

const RuleOptions& options_of(const torch::optim::OptimizerParamGroup& group) {
  const auto* options = dynamic_cast<const RuleOptions*>(&group.options());
  require(options != nullptr, "a group of parameters has the options of another optimizer");
  return *options;
}

}  // namespace

void RuleState::serialize(torch::serialize::OutputArchive& archive) const {
  archive.write("step", c10::IValue(step));
  torch::optim::serialize(archive, "slots", slots);
}

void RuleState::serialize(torch::serialize::InputArchive& archive) {
  c10::IValue value;
  archive.read("step", value);
  step = value.toInt();
  torch::optim::serialize(archive, "slots", slots);
}

RuleOptimizer::RuleOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                             std::unique_ptr<RuleOptions> defaults)
    : Optimizer(std::vector<torch::optim::OptimizerParamGroup>(), std::move(defaults)) {
  for (const auto& group : groups) add_param_group(group);
}

void RuleOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  Optimizer::add_param_group(group);
  auto& added = param_groups().back();
  if (group.has_options()) added.set_options(group.options().clone());
  kernels::require_valid(options_of(added).rule());
}

torch::Tensor RuleOptimizer::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure != nullptr) {
    at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  torch::NoGradGuard no_gradients;
  for (auto& group : param_groups()) {
    const kernels::Rule rule = options_of(group).rule();
    const kernels::Rule of_vectors = kernels::rule_of_vectors(rule);
    for (torch::Tensor& parameter : group.params())
      if (parameter.grad().defined())
        update(parameter.dim() > 1 ? rule : of_vectors, group.options().get_lr(), parameter);
  }
  return loss;
}

void RuleOptimizer::update(const kernels::Rule& rule, double lr, torch::Tensor& parameter) {
  require_dense_floats(parameter, "parameter", rule);
  require_dense_floats(parameter.grad(), "gradient", rule);
  RuleState& state = state_of(rule, parameter);
  ++state.step;
  if (parameter.is_cpu()) return update_on_cpu(rule, lr, parameter, state);
  update_by_torch(rule, lr, state.step, parameter, parameter.grad(), state.slots);
}

void RuleOptimizer::update_on_cpu(const kernels::Rule& rule, double lr, torch::Tensor& parameter,
                                  RuleState& state) {
  // The same memory, where that is contiguous.
  const torch::Tensor values = parameter.contiguous();
  const torch::Tensor gradient = parameter.grad().contiguous();
  float* const w = values.data_ptr<float>();
  const float* const g = gradient.data_ptr<float>();
  const std::int64_t count = values.numel();

  kernels::UpdateStep step{.lr = lr, .updates = static_cast<std::uint64_t>(state.step)};
  step.trust_ratio = trust_ratio(rule, step, w, g, state, count);
  for_each_piece(count, [&](std::size_t, std::int64_t begin, std::size_t size) {
    const kernels::GradientSource source{g + begin};
    kernels::update(rule, step, w + begin, slots_at(state, begin).data(), {&source, 1}, {}, size);
  });
  if (!parameter.is_contiguous()) parameter.copy_(values);
}

// Made at the first step, as in torch's optimizers; one that was loaded may be anything.
RuleState& RuleOptimizer::state_of(const kernels::Rule& rule, const torch::Tensor& parameter) {
  auto& held = state()[parameter.unsafeGetTensorImpl()];
  if (!held) {
    auto fresh = std::make_unique<RuleState>();
    for (std::size_t i = 0; i < kernels::state_slots(rule); ++i)
      fresh->slots.push_back(torch::zeros(parameter.sizes(), parameter.options()));
    held = std::move(fresh);
  }
  auto& found = static_cast<RuleState&>(*held);
  bool fits = found.step >= 0 && found.slots.size() == kernels::state_slots(rule);
  for (torch::Tensor& slot : found.slots) {
    fits = fits && slot.scalar_type() == torch::kFloat32 && slot.device() == parameter.device() &&
           slot.sizes() == parameter.sizes();
    if (!slot.is_contiguous()) slot = slot.contiguous();  // one that was loaded, of channels-last
  }
  require(
      fits,
      "the {} optimizer's state is not that of this model's parameters: it was saved by another "
      "optimizer or from another model",
      name_of(rule.kind));
  return found;
}

}  // namespace asup::optim
