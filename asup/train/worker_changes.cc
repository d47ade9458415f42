#include "asup/train/worker_changes.h"

#include "asup/train/pipeline_settings.h"

namespace asup::train {

bool can_change_workers(const TrainConfig& config) {
  const bool names_workers = config.strategy.capabilities().names_workers ||
                             (config.then && config.then->capabilities().names_workers);
  return !has_pipeline(config) && config.checkpoint_every.kind != Every::Kind::never &&
         !names_workers;
}

std::int64_t most_workers(const TrainConfig& config) { return config.batch / config.accumulate; }

}  // namespace asup::train
