// Halving and doubling: partners at distance 1, 2, 4, … swap half of what they hold, so that each
// rank has the sum of 1/n of the whole after log2 n rounds; all-gather takes the same way back.
//
// R. Rabenseifner: Optimization of collective reduction operations. International Conference on
// Computational Science (ICCS), LNCS 3036, 2004, doi:10.1007/978-3-540-24685-5_1. R. Thakur, R.
// Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
// International Journal of High Performance Computing Applications 19(1), 2005,
// doi:10.1177/1094342005051521.
//
// With p the largest power of two <= n, for a rank of the core (fold.h has the others):
//
//                                rounds       elements a rank sends     scratch
//   all_reduce                   2 log2 p     2(p - 1)/p of count       none
//   reduce_scatter (halving)     log2 p       (p - 1)/p of count        half of count
//   all_gather (doubling)        log2 p       (p - 1)/p of count        none
//
// Where n is not a power of two, two rounds more, in which 2(n - p) ranks move the whole (in a
// reduce_scatter and an all_gather, one of the two a block only); a reduce_scatter then needs
// scratch for the whole. As few bytes as the ring in far fewer rounds where n is a power of two;
// binary_blocks serves other n better. All-reduce is cut into lanes like the ring; blocks of ranks
// cannot be, since a lane's parts of several would not lie together. Pure functions; safe from any
// thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan halving_doubling_all_reduce(int rank, const Spec& spec);
Plan halving_reduce_scatter(int rank, const Spec& spec);
Plan doubling_all_gather(int rank, const Spec& spec);

}  // namespace asup::collective
