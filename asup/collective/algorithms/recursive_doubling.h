// Recursive doubling: everyone swaps its sum with a partner at distance 1, then 2, then 4, …, and
// both add what they got.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
// MPICH. International Journal of High Performance Computing Applications 19(1), 2005,
// doi:10.1177/1094342005051521.
//
// All-reduce: with p the largest power of two <= n, log2 p rounds in which each rank sends count
// elements, and two more where n is not a power of two (fold.h). No algorithm on messages has fewer
// rounds; each sends the whole, so this is for small counts. Scratch: count elements.
//
// Both partners add the same two sums, and (+) commutes to the bit, so all ranks get the same bits.
// Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan recursive_doubling_all_reduce(int rank, const Spec& spec);

}  // namespace asup::collective
