// The optimizer's state goes to servers and comes back from them, with rank 0's hands. Where it
// cannot, because servers and workers see no file in common, it begins anew, and rank 0 says so.
// Collective; used from the thread that trains.
#pragma once

#include <string>

#include "asup/collective/communicator.h"
#include "asup/train/state/training_context.h"

namespace asup::train {

// The state that the optimizer has, which is the same on all ranks, goes into files that begin with
// `path`. Returns what ServerReplicaOptions::resume is to be: that path, or nothing.
std::string hand_to_servers(const TrainingContext& context, const std::string& path);
// Once servers have it, for good: the workers' is gone, and so are the files, where there are any.
void has_been_handed(const TrainingContext& context, const std::string& path);

// The optimizer, on all ranks, gets the state of files that begin with `path`, of servers that were
// set up by `config`. `saves`: rank 0 has the servers of context.server write them first, and they
// go afterwards.
void take_from_servers(const TrainingContext& context, const TrainConfig& config,
                       const std::string& path, bool saves);

}  // namespace asup::train
