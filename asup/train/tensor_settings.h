// What a configuration says of layers that several workers compute together (`--tensor`;
// docs/tensor_parallel.md). Pure; safe from any thread.
#pragma once

#include "asup/train/config.h"

namespace asup::train {

// Throws BadInput that says what to change, for settings that do not go together. needs:
// has_tensor(), check_spread()
void check_tensor(const TrainConfig& config);

}  // namespace asup::train
