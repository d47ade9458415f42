// What servers do not share: buffers and local parameters, which differ between workers, and whose
// values count where all need the same. Used from the thread that trains.
#pragma once

#include <string_view>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/model/tensors.h"

namespace asup {

// Whose values of what is not shared a test or a checkpoint takes.
enum class Unshared {
  average,  // of floating points, rank 0's of others
  first,    // rank 0's
  own       // each worker's own
};

namespace sync {

std::string_view name_of(Unshared values);

// Collective.
void settle_unshared(Communicator& workers, const std::vector<NamedTensor>& tensors,
                     Unshared values);

}  // namespace sync
}  // namespace asup
