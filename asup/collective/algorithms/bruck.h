// Bruck's algorithms: log2 n rounds for any n, by passing on everything that has come so far.
//
// J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
// communications in multiport message-passing systems. IEEE Transactions on Parallel and
// Distributed Systems 8(11), 1997, doi:10.1109/71.642949.
//
//                 rounds          elements a rank sends         scratch
//   all_gather    ceil(log2 n)    (n - 1)/n of count            none
//   all_to_all    ceil(log2 n)    about log2(n)/2 × its input   about (1 + log2 n)/2 × its input
//
// All-gather: in round k a rank passes the 2^k blocks it has to the rank 2^k before it on the
// circle, and gets as many from the one 2^k after. The blocks go straight to their places, in two
// messages where they go over the end of the row, so that nothing is turned round at the end.
//
// All-to-all: a block for the rank d places further on travels by the bits of d: in round k, those
// with bit k set go 2^k places on, packed into one message. For small blocks: a block travels up to
// log2 n times. What comes stays where it came until its next round, so that a block is copied once
// a hop and not twice; that is what the scratch is for. All ranks know all blocks' sizes, so blocks
// may be uneven. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan bruck_all_gather(int rank, const Spec& spec);
Plan bruck_all_to_all(int rank, const Spec& spec);

}  // namespace asup::collective
