// The tree: a binomial tree adds up towards rank 0, and takes the result back.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
// MPICH. International Journal of High Performance Computing Applications 19(1), 2005,
// doi:10.1177/1094342005051521.
//
// All-reduce: 2 ceil(log2 n) messages deep; rank 0 sends and receives ceil(log2 n) × count
// elements, half of the ranks send and receive count. n - 1 messages each way, fewer than any
// other, so that it is gentle to a network that many share. In lanes like the ring, so that a part
// goes down while the next comes up. No scratch. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan tree_all_reduce(int rank, const Spec& spec);

}  // namespace asup::collective
