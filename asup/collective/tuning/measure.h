// Measures the Rates of a group by messages between its ranks and by adding up memory of its own.
//
//   - Memory, on all ranks at once, as they will work at once: the median counts.
//   - Links inside a host, between the first two ranks of each; links between hosts, between the
//     first ranks of one and the next: the slowest counts, since a collective waits for it.
// Of several tries the quickest, or the quickest quarter, count, so that what else the machine does
// counts little.
//
// Collective: all ranks call it, with nothing else under way. Takes some tenths of a second on one
// host.
#pragma once

#include "asup/collective/communicator.h"
#include "asup/collective/cost/rates.h"
#include "asup/collective/tuning/surroundings.h"

namespace asup::collective::tuning {

// All ranks get rank 0's answer, to the bit.
Rates measure(Communicator& communicator, const Surroundings& surroundings);

}  // namespace asup::collective::tuning
