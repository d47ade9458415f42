// Training in step: every rank works on its part of every global batch. Used from one thread.
#pragma once

#include <functional>

#include "asup/train/run.h"

namespace asup::train {

// Trains to the last step of the run's phase, or until the loss has it change its way, or until any
// rank's `stop_asked`, which is looked at after every step, and concludes the run; nobody leaves
// before that. Collective.
TrainEnd train_in_step(Run& run, const std::function<bool()>& stop_asked);

}  // namespace asup::train
