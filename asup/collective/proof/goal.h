// What the Spec asks of the end of the run. Throws Refuted.
#pragma once

#include "asup/collective/plan.h"
#include "asup/collective/proof/machine.h"

namespace asup::collective::proof {

void check_goal(const Spec& spec, const Machine& machine);

}  // namespace asup::collective::proof
