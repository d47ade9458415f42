// Makes a module's buffers, or other tensors, equal on all ranks, in one call for each type.
// Collective; called by the thread that trains. Throws JobFailed; no buffer has changed then.
#pragma once

#include <span>

#include "asup/collective/communicator.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

// That rank's.
void broadcast_packed(Communicator& communicator, std::span<const NamedTensor> buffers,
                      int root = 0);

// The average for floating points, rank 0's for others (counters).
void average_packed(Communicator& communicator, std::span<const NamedTensor> buffers);

}  // namespace asup::sync
