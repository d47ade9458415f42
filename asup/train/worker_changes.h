// Whether and how far the number of a run's workers may change. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "asup/train/config.h"

namespace asup::train {

// Whether workers may join, and others go on without lost ones: there are checkpoints, nothing that
// is set speaks of each worker, and groups of them do not train through servers.
bool can_change_workers(const TrainConfig& config);

// Whether, in a phase by this strategy, the others go on from memory when a worker is lost. What a
// lost one had of a model's layers is lost with it.
bool survives_loss(const TrainConfig& config, const Strategy& strategy);

// Whether, in a phase by this strategy, those who are left can take the step again in which a
// worker was lost, from memory.
bool can_retake_steps(const TrainConfig& config, const Strategy& strategy);

// So many have something to do in each step, where each has the whole model.
std::int64_t most_workers(const TrainConfig& config);

// How many of so many workers train. Where several have one model together, only as many do as make
// whole groups, between which a batch can be dealt out evenly; the others are spares. 0: there are
// too few for one group.
std::int64_t workers_in_groups(const TrainConfig& config, std::int64_t workers);

// "1 group of 2 workers goes on; 1 waits to take a place". needs: is_spread() and a group
std::string describe_groups(const TrainConfig& config, std::int64_t workers);

}  // namespace asup::train
