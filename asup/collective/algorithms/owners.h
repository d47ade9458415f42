// All-reduce in which each rank owns a block: it gets that block of all, sums it up, and sends the
// sum to all. Nothing is passed on, so that numbers are encoded twice on their way, whatever the
// number of ranks, and all get the same code of a sum.
#pragma once

#include "asup/collective/plan/plan.h"

namespace asup::collective {

Plan owners_all_reduce(int rank, const Spec& spec);

}  // namespace asup::collective
