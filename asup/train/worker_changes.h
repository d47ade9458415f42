// Whether and how far the number of a run's workers may change. Pure; safe from any thread.
#pragma once

#include <cstdint>

#include "asup/train/config.h"

namespace asup::train {

// Whether workers may join, and others go on without lost ones: there are checkpoints, and nothing
// that is set speaks of each worker.
bool can_change_workers(const TrainConfig& config);

// Whether, in a phase by this strategy, the others go on from memory when a worker is lost. What a
// lost one had of a model's layers is lost with it.
bool survives_loss(const TrainConfig& config, const Strategy& strategy);

// Whether, in a phase by this strategy, those who are left can take the step again in which a
// worker was lost, from memory.
bool can_retake_steps(const TrainConfig& config, const Strategy& strategy);

// So many have something to do in each step.
std::int64_t most_workers(const TrainConfig& config);

}  // namespace asup::train
