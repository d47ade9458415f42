// What servers keep of a model of which each worker has a part. Collective; called from the thread
// that trains.
#pragma once

#include "asup/collective/communicator.h"
#include "asup/ps/server_setup.h"
#include "asup/sync/model/model_parts.h"

namespace asup::sync {

// The setup of all parts, one after the other, from that of this worker's. `replicas`: the workers
// that have the same part, each with a team of its own; `rank`: this one's among all workers.
// Throws BadInput where the parts are trained by different rules, JobFailed.
ps::ServerSetup setup_of_parts(const ps::ServerSetup& own, Communicator& replicas,
                               const ModelParts& parts, int rank);

}  // namespace asup::sync
