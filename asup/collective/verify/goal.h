// What the Spec asks of the end of the run. Throws Refuted.
#pragma once

#include "asup/collective/plan/plan.h"
#include "asup/collective/verify/symbolic_run.h"

namespace asup::collective::proof {

void check_goal(const Spec& spec, const SymbolicRun& machine);

}  // namespace asup::collective::proof
