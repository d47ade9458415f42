// The binomial tree: whoever has the data passes it on to half of those left, then half of the
// rest.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
// MPICH. International Journal of High Performance Computing Applications 19(1), 2005,
// doi:10.1177/1094342005051521, section 5.
//
// Broadcast: ceil(log2 n) messages from the root to the last rank; the root sends ceil(log2 n) ×
// count elements, half of the ranks send none. Fewest rounds, so best for small counts. Pure
// functions; safe from any thread.
#pragma once

#include "asup/collective/plan.h"

namespace asup::collective {

Plan binomial_broadcast(int rank, const Spec& spec);

}  // namespace asup::collective
