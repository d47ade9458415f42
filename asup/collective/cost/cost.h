// What an algorithm would take: its plans, run by a clock that is only reckoned.
//
// A simulation of all ranks, event by event, from the plans alone, so that an algorithm needs no
// formula to be priced. In it,
//   - a rank is one thread: it posts, copies, reduces and receives one thing after the other, and
//     lanes take turns; where a host has more ranks than cores, they wait for a core as well;
//   - a message takes the sender's processor, then the latency, then the receiver's, its bytes
//     passing through all of them at once; between hosts, it takes its turn in the network that
//     the ranks of a host share;
//   - a send ends when its bytes have left, or, where they are more than a link buffers, when they
//     are received; a round ends with its last step.
// Left out: ranks that come late, and what else the machine does.
//
// Time is counted in whole picoseconds, and all arithmetic is on integers: the same Rates give the
// same price, to the last digit, on every processor. Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "asup/collective/cost/rates.h"
#include "asup/collective/plan/plan.h"

namespace asup::collective {

using Picoseconds = std::int64_t;
inline double seconds_of(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

// `plans` by rank, of elements of `element` bytes; `hosts` says on which host each rank is, as any
// numbers; empty: all on one. Throws Error where the plans do not end, which verify() explains.
Picoseconds price(const Spec& spec, const std::vector<Plan>& plans, const Rates& rates,
                  std::size_t element, std::span<const int> hosts = {});

// Of the plans that `algorithm` makes. Where they have more than some 200,000 steps together, which
// would take tens of milliseconds to go through, the price is that of the same call among 8, 16 and
// 32 ranks, carried on to spec.ranks as a + b ceil(log2 n) + c n: the form that the costs of all
// algorithms in docs/algorithms.md have.
Picoseconds price(const Algorithm& algorithm, const Spec& spec, const Rates& rates,
                  std::size_t element, std::span<const int> hosts = {});

}  // namespace asup::collective
