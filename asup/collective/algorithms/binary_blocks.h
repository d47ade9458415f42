// Binary blocks: n ranks as blocks of powers of two (600 = 512 + 64 + 16 + 8), each of which halves
// by itself; then the blocks add up, from the smallest to the largest, and get the result back.
//
// R. Rabenseifner, J. L. Träff: More efficient reduction algorithms for non-power-of-two number of
// processors in message-passing parallel systems. EuroPVM/MPI, LNCS 3241, 2004,
// doi:10.1007/978-3-540-30218-6_13.
//
// All-reduce: with p the largest block, 2(log2 p + the number of blocks - 1) rounds at most; a rank
// of the largest block sends at most 2(p - 1)/p + 1/p of count. What a rank of a smaller block
// holds after halving belongs to several ranks of the next larger one: it sends each its piece, so
// that all ranks of the larger block share the work, and no rank but that of a block of one (n is
// odd) ever hands on the whole. Smaller blocks are through with their halving sooner, so that their
// pieces wait for the larger ones and not the other way round. No scratch; in lanes like the ring.
// Pure functions; safe from any thread.
#pragma once

#include "asup/collective/algorithms/team.h"
#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan binary_blocks_all_reduce(int rank, const Spec& spec);

// The same among a team, of the elements of `part`, as rounds of a lane; the terms lie in `source`,
// the result in the output. needs: a team of two or more
void all_reduce_in_binary_blocks(const Team& team, Cut part, Area source, Lane& lane);

}  // namespace asup::collective
