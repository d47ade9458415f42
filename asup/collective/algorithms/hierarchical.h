// Hierarchical: each host adds up by itself, the hosts add up among each other, and each host
// shares the result.
//
// N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J.
// Bresnahan: Exploiting hierarchy in parallel computer networks to optimize collective operation
// performance. IPDPS 2000, doi:10.1109/IPDPS.2000.846009.
//
// All-reduce among h hosts, the smallest of which has m ranks: a ring reduces inside each host, so
// that place i < m there holds the host's sum of block i of m; the ranks of place i on all hosts
// all-reduce it (binary_blocks.h); a ring gathers inside each host. With m ranks on each host,
// 2(m - 1) rounds inside and about 2 log2 h across; a rank sends 2(m - 1)/m of count inside, and
// only 2(h - 1)/(h m) of count to other hosts: m ranks of a host share its link to the others.
// Where hosts have unequal numbers of ranks, those beyond m add and get the result, but do not talk
// to other hosts. Without hosts in the Spec, all ranks count as on one, and this is a ring. No
// scratch; in lanes like the ring. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan hierarchical_all_reduce(int rank, const Spec& spec);

}  // namespace asup::collective
