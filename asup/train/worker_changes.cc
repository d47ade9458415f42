#include "asup/train/worker_changes.h"

#include "asup/train/grid_settings.h"

namespace asup::train {

bool can_change_workers(const TrainConfig& config) {
  const bool names_workers = config.strategy.capabilities().names_workers ||
                             (config.then && config.then->capabilities().names_workers);
  return !is_spread(config) && config.checkpoint_every.kind != Every::Kind::never && !names_workers;
}

bool survives_loss(const TrainConfig& config, const Strategy& strategy) {
  return strategy.capabilities().survives_loss && !is_spread(config);
}

// BatchNorm over all workers is computed by a communicator of the model's own.
bool can_retake_steps(const TrainConfig& config, const Strategy& strategy) {
  return strategy.capabilities().retakes_steps && !config.sync_bn && !is_spread(config);
}

std::int64_t most_workers(const TrainConfig& config) { return config.batch / config.accumulate; }

}  // namespace asup::train
