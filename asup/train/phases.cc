#include "asup/train/phases.h"

#include "asup/base/error.h"
#include "asup/config/step_or_share.h"
#include "asup/train/pipeline_settings.h"

namespace asup::train {
namespace {

constexpr const char* kStall = "stall";

}  // namespace

bool changes_at_stall(const TrainConfig& config) {
  return has_phases(config) && config.at == kStall;
}

bool can_balance(const Strategy& strategy) {
  const Capabilities capabilities = strategy.capabilities();
  return capabilities.lockstep && capabilities.exchanges == Exchange::gradients;
}

TrainConfig of_phase(const TrainConfig& config, Phase phase) {
  TrainConfig result = config;
  if (has_phases(config) && phase == Phase::second) result.strategy = *config.then;
  result.balance = config.balance && can_balance(result.strategy);
  return result;
}

bool can_leave_servers(const TrainConfig& config) {
  return config.workers > 1 && !has_pipeline(config) && !has_phases(config) &&
         config.on_loss != "continue" && !config.strategy.capabilities().keeps_own_parameters;
}

std::optional<std::int64_t> switch_step(const TrainConfig& config, const RunLength& length) {
  if (!has_phases(config) || config.at == kStall) return std::nullopt;
  const std::int64_t step = StepOrShare::from_text(config.at)->steps(length.steps);
  require(
      step > 0 && step < length.steps,
      "at = {} is not within the run, which has {} steps: sync = {} or then = {} would never be "
      "used. Give a step between them, a share like 80%, or stall.",
      config.at, length.steps, config.strategy.name(), config.then->name());
  return step;
}

TrainConfig of_phase(const TrainConfig& config, Phase phase, const RunLength& length) {
  TrainConfig result = of_phase(config, phase);
  const auto step = switch_step(config, length);
  if (phase == Phase::first && step && (!config.stop_at || *step < *config.stop_at))
    result.stop_at = *step;
  return result;
}

bool needs_servers(const TrainConfig& config) {
  return config.strategy.capabilities().needs_servers ||
         (config.then && config.then->capabilities().needs_servers);
}

void check_phases(const TrainConfig& config) {
  require(config.then->name() != config.strategy.name(),
          "then = {} is the way that the run begins with. Name another one, or leave then out.",
          config.then->name());
  for (const Strategy& strategy : {config.strategy, *config.then})
    require(!strategy.capabilities().keeps_own_parameters,
            "sync = {} cannot be one of two ways as it is: with merge or local-parameters, workers "
            "would come to the change with parameters of their own. Leave these, or then, out.",
            strategy.name());
  require(config.at == kStall || StepOrShare::from_text(config.at),
          "at = '{}' is no step, no share of the run like 80%, and not stall", config.at);
}

}  // namespace asup::train
