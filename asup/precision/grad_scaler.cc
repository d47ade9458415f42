#include "asup/precision/grad_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "asup/base/error.h"
#include "asup/sync/gradients/clip.h"

namespace asup {
namespace {

constexpr double kLeast = 1.0 / (1 << 24), kMost = 0x1p100;  // scales: f32 holds them, and 1 / them

std::vector<torch::Tensor> with_gradients(std::vector<torch::Tensor> parameters) {
  std::erase_if(parameters, [](const torch::Tensor& each) { return !each.requires_grad(); });
  return parameters;
}

bool are_finite(const std::vector<torch::Tensor>& parameters) {
  std::vector<sync::NamedTensor> named;
  for (const torch::Tensor& parameter : parameters) named.push_back({"", parameter});
  return std::isfinite(sync::gradient_norm(named));
}

}  // namespace

std::string GradScalerState::to_text() const {
  return fmt::format("{} after {} steps", scale, steps_since_change);
}

GradScalerState GradScalerState::from_text(const std::string& text) {
  std::istringstream words(text);
  GradScalerState state;
  std::string after, steps;
  words >> state.scale >> after >> state.steps_since_change >> steps;
  require(!words.fail() && after == "after" && steps == "steps" && words.eof(),
          "'{}' is no state of a GradScaler, like '65536 after 12 steps'", text);
  return state;
}

GradScaler::GradScaler(std::vector<torch::Tensor> parameters, const GradScalerOptions& options)
    : parameters_(with_gradients(std::move(parameters))), options_(options) {
  require(options.growth > 1 && options.backoff > 0 && options.backoff < 1 &&
              options.growth_interval > 0,
          "a GradScaler needs growth > 1, 0 < backoff < 1 and growth_interval > 0, not {}, {} and "
          "{}",
          options.growth, options.backoff, options.growth_interval);
  restore({options.first, 0});
  for (const torch::Tensor& parameter : parameters_)
    hooks_.push_back(parameter.register_hook([this](const torch::Tensor& gradient) {
      return gradient.defined() ? gradient * (1 / state_.scale) : gradient;
    }));
}

GradScaler::~GradScaler() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) parameters_[i].remove_hook(hooks_[i]);
}

torch::Tensor GradScaler::unscaled(const torch::Tensor& through) const {
  if (through.requires_grad())
    through.register_hook([this](const torch::Tensor& gradient) {
      return gradient.defined() ? gradient * (1 / state_.scale) : gradient;
    });
  return through;
}

StepResult GradScaler::step(Replica& replica) {
  // Through servers, a step is applied where others' gradients were, though this worker's are left
  // out: its own count tells.
  const std::uint64_t before = replica.stats().skipped;
  const StepResult result = replica.step();
  update(replica.stats().skipped > before ? StepResult::skipped : StepResult::applied);
  return result;
}

StepResult GradScaler::step(torch::optim::Optimizer& optimizer) {
  const StepResult result = are_finite(parameters_) ? StepResult::applied : StepResult::skipped;
  if (result == StepResult::applied) optimizer.step();
  update(result);
  return result;
}

void GradScaler::update(StepResult result) {
  if (result == StepResult::skipped) {
    state_ = {std::max(state_.scale * options_.backoff, kLeast), 0};
  } else if (++state_.steps_since_change >= options_.growth_interval) {
    state_ = {std::min(state_.scale * options_.growth, kMost), 0};
  }
}

void GradScaler::restore(const GradScalerState& state) {
  require(state.scale >= kLeast && state.scale <= kMost,
          "{} is no number to scale a loss by (allowed: {} … {})", state.scale, kLeast, kMost);
  state_ = state;
}

}  // namespace asup
