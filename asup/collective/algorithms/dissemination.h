// The dissemination barrier: in round k each rank tells the one 2^k places further on, so that what
// a rank has heard of doubles each round.
//
// D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization. International
// Journal of Parallel Programming 17(1), 1988, doi:10.1007/BF01379320.
//
// ceil(log2 n) rounds of one signal a rank, for any n. Pure functions; safe from any thread.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan dissemination_barrier(int rank, const Spec& spec);

}  // namespace asup::collective
