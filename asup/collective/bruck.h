// Bruck's algorithms: log2 n rounds for any n, by passing on everything that has come so far.
//
// J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
// communications in multiport message-passing systems. IEEE Transactions on Parallel and
// Distributed Systems 8(11), 1997, doi:10.1109/71.642949.
//
//                 rounds          elements a rank sends     scratch
//   all_gather    ceil(log2 n)    (n - 1)/n of count        none
//
// All-gather: in round k a rank passes the 2^k blocks it has to the rank 2^k before it on the
// circle, and gets as many from the one 2^k after. The blocks go straight to their places, in two
// messages where they go over the end of the row, so that nothing is turned round at the end. Pure
// functions; safe from any thread.
#pragma once

#include "asup/collective/plan.h"

namespace asup::collective {

Plan bruck_all_gather(int rank, const Spec& spec);

}  // namespace asup::collective
