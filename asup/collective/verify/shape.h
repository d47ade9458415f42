// What can be said of a step without running anything: its operation is one this collective knows,
// its peer exists, its ranges lie inside their areas. Throws Refuted.
#pragma once

#include <vector>

#include "asup/collective/plan/plan.h"

namespace asup::collective::proof {

void check_shape(const Spec& spec, const std::vector<Plan>& plans);

}  // namespace asup::collective::proof
