// All-reduce of private buffers on one host: through stages, pieces of memory that every rank of
// the group reaches and that stay in the cache.
//
// The elements are cut into pieces, a piece into n slices. For each piece a rank copies the slices
// of the others onto its stage, waits for them at a barrier, reduces its own slice out of its input
// and their stages, leaves the result on its stage, waits again, and fetches the others' results.
// Two lanes take turns with the pieces, so that one works while the other waits at a barrier.
//
// The elements are added in rank order, as by direct_all_reduce: the same bits.
//
// 2 barriers a piece and one at the end; a rank copies 2(n-1)/n + 1/n of the elements and reduces
// 1/n of them out of n operands. The stage is 2(n + 1) slices; a slice is at most two of
// Spec::slice, since a barrier costs more than a message. After R. L. Graham, G. Shipman: MPI
// support for multi-core architectures: optimized shared memory collectives. EuroPVM/MPI 2008.
// Pure; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan staged_all_reduce(int rank, const Spec& spec);

}  // namespace asup::collective
