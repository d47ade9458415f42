// Direct: where every rank reaches every other's memory, nothing is sent but signals.
//
// The shared-memory collectives of MPI libraries rest on the same idea; for reductions see S. Jain,
// R. Kaleem, M. G. Balmana, A. Langer, D. Durnov, A. Sannikov, M. Garzaran: Framework for scalable
// intra-node collective operations using shared memory. SC18, 2018, pages 374-385. Here the user's
// own buffers are shared, so there is no staging copy.
//
// Three rounds: everyone says "my input is ready", works on memory, says "I am done with yours".
//
//                     signals a rank sends   elements a rank reads    elements a rank writes
//   all_reduce        2(n - 1)               count                    count
//   reduce_scatter    2(n - 1)               n × its block            its block
//   all_gather        2(n - 1)               count                    count
//   broadcast         1 (the root n - 1)     count                    count
//   reduce            2(n - 1)               count                    2/n of count
//   gather            1 (the root n - 1)     its block                its block
//   scatter           1 (the root n - 1)     its block                its block
//   all_to_all        2(n - 1)               its output               its output
//
// Each element is reduced by one rank alone, in rank order, and copied from there: all ranks hold
// the same bits. In a reduce, all ranks share the work: each reduces a slice into scratch (1/n of
// count), and from there, while it is in the cache, into the root's output. Pure functions; safe
// from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan direct_all_reduce(int rank, const Spec& spec);
Plan direct_reduce_scatter(int rank, const Spec& spec);
Plan direct_all_gather(int rank, const Spec& spec);
Plan direct_broadcast(int rank, const Spec& spec);
Plan direct_reduce(int rank, const Spec& spec);
Plan direct_gather(int rank, const Spec& spec);
Plan direct_scatter(int rank, const Spec& spec);
Plan direct_all_to_all(int rank, const Spec& spec);

}  // namespace asup::collective
