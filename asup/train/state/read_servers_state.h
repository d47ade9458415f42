// What servers left beside a checkpoint, for a way of staying in step that has none. Used from the
// thread that trains.
#pragma once

#include <string>

#include "asup/train/state/training_context.h"

namespace asup::train {

// The optimizer, on all ranks, gets the state of the files that begin with `path`, of servers that
// were set up by `config`. Where rank 0 cannot read them it begins anew, and the log says so.
// Collective.
void read_servers_state(const TrainingContext& context, const TrainConfig& config,
                        const std::string& path);

}  // namespace asup::train
