// Looks at a run's inputs before any worker is started. Functions only; safe from any thread.
#pragma once

#include <string>

#include "asup/train/config.h"

namespace asup::train {

// Opens the data sets, makes the model, cuts up batches, reads the checkpoint to resume from.
// Throws BadInput that says what is wrong and what to do. Starts no threads.
void check_inputs(const TrainConfig& config);

// The models and data sets there are, with a line each.
std::string list_inputs();

}  // namespace asup::train
