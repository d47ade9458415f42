#include "asup/train/worker_changes.h"

namespace asup::train {

bool can_change_workers(const TrainConfig& config) {
  const bool edges = config.graph.find('-') != config.graph.npos;  // between given workers
  return config.checkpoint_every.kind != Every::Kind::never && !edges;
}

std::int64_t most_workers(const TrainConfig& config) { return config.batch / config.accumulate; }

}  // namespace asup::train
