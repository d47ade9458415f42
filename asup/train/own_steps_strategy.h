// The strategies in which workers step on their own and exchange models: what may be chosen. Values
// only.
#pragma once

#include "asup/train/strategy.h"

namespace asup::train {

// Fills in what was left open. Throws BadInput for choices that do not go together. needs:
// strategy.has_own_steps()
void settle_own_steps(Strategy& strategy);

// Throws BadInput for a choice of these strategies in another one.
void refuse_own_steps_choices(const Strategy& strategy);

// needs, of all: a settled strategy

// How long those who have come to a merge of a round wait for late workers; 0: as long as it takes.
Seconds patience_of(const Strategy& strategy);

// Steps between two exchanges of models; 0: every = auto.
std::int64_t steps_between_exchanges(const Strategy& strategy);
// Steps that come before the local ones, in a run of `steps` steps, 0: of unknown length. Throws
// BadInput where a share of that is asked for.
std::int64_t steps_before_local(const Strategy& strategy, std::int64_t steps);

}  // namespace asup::train
