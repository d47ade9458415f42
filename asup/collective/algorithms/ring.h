// The ring: ranks stand in a circle, each sends only to the next and receives only from the one
// before.
//
// P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations.
// Journal of Parallel and Distributed Computing 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002.
//
//                     rounds      elements a rank sends     scratch
//   all_reduce        2(n - 1)    2(n - 1)/n of count       none
//   reduce_scatter    n - 1       (n - 1)/n of count        2 blocks (none at n = 2, 1 at n = 3)
//   all_gather        n - 1       (n - 1)/n of count        none
//
// No algorithm sends less; the price is a number of rounds that grows with n. Each block is cut
// into pieces of about spec.slice elements, every one with a ring of its own; a few lanes do pieces
// by turns, so that one lane's bytes travel while another's are reduced. Pure functions; safe from
// any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan ring_all_reduce(int rank, const Spec& spec);
Plan ring_reduce_scatter(int rank, const Spec& spec);
Plan ring_all_gather(int rank, const Spec& spec);

}  // namespace asup::collective
