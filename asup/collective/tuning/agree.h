// Gives all ranks the same Rates, to the bit, and proves that they have them. Collective.
#pragma once

#include <cstdint>

#include "asup/collective/communicator.h"
#include "asup/collective/cost/rates.h"

namespace asup::collective::tuning {

// Rank 0's, on all ranks. Throws Error, naming the ranks, where prices would differ all the same:
// ranks that run another version of asup, or know other algorithms.
Rates agree(Communicator& communicator, const Rates& mine);

// All that a choice depends on beside the Spec: the rates, the version, the table of algorithms.
std::uint64_t fingerprint(const Rates& rates);

}  // namespace asup::collective::tuning
