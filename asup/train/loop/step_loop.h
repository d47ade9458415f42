// Training in step: every rank works on its part of every global batch. Used from one thread.
//
// Where workers step on their own and exchange models, those who are left go on when one is lost:
// nothing is lost but what it did since it last exchanged its model, and its parts of the steps
// until the others have missed it.
#pragma once

#include <functional>

#include "asup/train/state/run_state.h"

namespace asup::train {

// Trains to the last step of the run's phase, or until the loss has it change its way, or until any
// rank's `stop_asked`, which is looked at after every step, and concludes the run; nobody leaves
// before that. Collective.
TrainEnd train_in_step(RunState& run, Job& job, const std::function<bool()>& stop_asked);

}  // namespace asup::train
