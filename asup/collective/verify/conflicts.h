// Races that can be seen without running anything. Throws Refuted.
#pragma once

#include <vector>

#include "asup/collective/plan/plan.h"

namespace asup::collective::proof {

// Steps of one message round are in flight together, in no order: what one writes no other may
// touch. Memory steps run in order element by element: a later one may touch what an earlier one
// wrote, but only at the same position in its own range. Within a step the same holds: two of its
// ranges are one and the same, or apart.
void check_rounds(const Spec& spec, const std::vector<Plan>& plans);

// Lanes advance in no order: what any rank writes in one lane, no rank may touch in another.
void check_lanes(const Spec& spec, const std::vector<Plan>& plans);

}  // namespace asup::collective::proof
