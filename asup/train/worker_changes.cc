#include "asup/train/worker_changes.h"

#include <fmt/format.h>

#include "asup/train/pipeline_settings.h"

namespace asup::train {

bool can_change_workers(const TrainConfig& config) {
  const bool names_workers = config.strategy.capabilities().names_workers ||
                             (config.then && config.then->capabilities().names_workers);
  const bool pushes_in_groups = is_spread(config) && config.strategy.capabilities().needs_servers;
  return config.checkpoint_every.kind != Every::Kind::never && !names_workers && !pushes_in_groups;
}

bool survives_loss(const TrainConfig& config, const Strategy& strategy) {
  return strategy.capabilities().survives_loss && !is_spread(config);
}

// BatchNorm over all workers is computed by a communicator of the model's own.
bool can_retake_steps(const TrainConfig& config, const Strategy& strategy) {
  return strategy.capabilities().retakes_steps && !config.sync_bn && !is_spread(config);
}

std::int64_t most_workers(const TrainConfig& config) { return config.batch / config.accumulate; }

std::int64_t workers_in_groups(const TrainConfig& config, std::int64_t workers) {
  if (!is_spread(config)) return workers;
  const std::int64_t size = config.pipeline * config.tensor;
  TrainConfig fewer = config;
  for (fewer.workers = workers / size * size; fewer.workers > 0; fewer.workers -= size)
    if (groups_of(fewer) <= most_workers(config) && (!has_pipeline(fewer) || deals_evenly(fewer)))
      break;
  return fewer.workers;
}

std::string describe_groups(const TrainConfig& config, std::int64_t workers) {
  const std::int64_t working = workers_in_groups(config, workers);
  const std::int64_t size = config.pipeline * config.tensor, groups = working / size;
  std::string text = fmt::format("{} of {} workers {} on",
                                 groups == 1 ? "1 group" : fmt::format("{} groups", groups), size,
                                 groups == 1 ? "goes" : "go");
  if (working == workers) return text;
  const std::int64_t spares = workers - working;
  return fmt::format("{}; {} to take a place", text,
                     spares == 1 ? "1 waits" : fmt::format("{} wait", spares));
}

}  // namespace asup::train
