// The update rule that a torch optimizer stands for. Safe from any thread.
#pragma once

#include <torch/torch.h>

#include "asup/kernels/rule.h"

namespace asup::sync {

// Throws BadInput that names an optimizer, or an option, that no rule knows.
kernels::Rule rule_of(const torch::optim::Optimizer& optimizer);

}  // namespace asup::sync
