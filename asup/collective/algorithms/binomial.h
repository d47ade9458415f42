// The binomial tree: whoever has the data passes it on to half of those left, then half of the
// rest; and the other way round.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
// MPICH. International Journal of High Performance Computing Applications 19(1), 2005,
// doi:10.1177/1094342005051521. E. Chan, M. Heimlich, A. Purkayastha, R.
// van de Geijn: Collective communication: theory, practice, and experience. Concurrency and
// Computation: Practice and Experience 19(13), 2007, doi:10.1002/cpe.1206.
//
//                messages deep    elements the root sends or receives    scratch
//   broadcast    ceil(log2 n)     ceil(log2 n) × count                   none
//   reduce       ceil(log2 n)     ceil(log2 n) × count                   count, on inner ranks
//   gather       ceil(log2 n)     count - its block                      a subtree's blocks
//   scatter      ceil(log2 n)     count - its block                      a subtree's blocks
//
// Half of the ranks are leaves, which talk once. Fewest rounds, so best for small counts: in a
// gather or scatter, a block travels up to log2 n times. A reduce is cut into lanes, so that a part
// is passed on while the next is added. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan binomial_broadcast(int rank, const Spec& spec);
Plan binomial_reduce(int rank, const Spec& spec);
Plan binomial_gather(int rank, const Spec& spec);
Plan binomial_scatter(int rank, const Spec& spec);

}  // namespace asup::collective
