// Which algorithm serves a call. A pure function of the Spec, which is equal on all ranks, so all
// ranks choose the same. Safe from any thread.
#pragma once

#include <string_view>

#include "asup/collective/plan/plan.h"

namespace asup::collective {

// Whether it can carry out such a call, where memory reaches as the Spec says.
bool can_serve(const Algorithm& algorithm, const Spec& spec);

// The best by rule, or the one that `name` asks for. Throws BadInput where there is none of that
// name, or where it needs memory that these ranks do not share.
const Algorithm& choose(const Spec& spec, std::string_view name = {});

}  // namespace asup::collective
