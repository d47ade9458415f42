// Pairwise: in round k each rank sends to the one k places after it, and receives from the one k
// before, so that every rank is sender and receiver once a round.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
// MPICH. International Journal of High Performance Computing Applications 19(1), 2005,
// doi:10.1177/1094342005051521.
//
// All-to-all: n - 1 rounds; each rank sends all but its own block once, the least there is. Best
// where blocks are not small. Each block is cut into pieces of about spec.slice elements. No
// scratch. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan pairwise_all_to_all(int rank, const Spec& spec);

}  // namespace asup::collective
