// What a configuration says of a model that several workers train together: by layers
// (`--pipeline`) or by parts of layers (`--tensor`). Pure; safe from any thread.
//
// The workers are a grid. So many that follow each other on the axes of the model are a group, and
// train one model; groups share the batches, as workers do where each has the whole model. Where no
// model is spread, every worker is a group of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "asup/parallel/grid.h"
#include "asup/train/config.h"

namespace asup::train {

inline bool has_pipeline(const TrainConfig& config) { return config.pipeline > 1; }
inline bool has_tensor(const TrainConfig& config) { return config.tensor > 1; }
inline bool is_spread(const TrainConfig& config) {
  return has_pipeline(config) || has_tensor(config);
}

// Groups that share batches.
inline std::int64_t groups_of(const TrainConfig& config) {
  return config.workers / (config.pipeline * config.tensor);
}

parallel::GridShape grid_shape(const TrainConfig& config);

// Throws BadInput for what does not go with a part of a model, and says what to change. needs:
// is_spread()
void check_spread(const TrainConfig& config, std::span<const Strategy> strategies);
// The same for a setting that is not as usual.
void refuse_spread(const TrainConfig& config, std::string_view setting, std::string_view why);

}  // namespace asup::train
