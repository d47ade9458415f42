// What parameter servers do in place of an optimizer's step: the update rule that equals it, and
// the learning rate that is in force.
// Safe from any thread as far as the optimizer is.
#pragma once

#include <torch/torch.h>

#include "asup/kernels/rule.h"

namespace asup::sync {

// Throws BadInput that names the optimizer's type or the option, and says what is possible, where
// there is no such rule: for types other than torch's SGD, RMSprop, Adam and AdamW and asup's Lars
// and AsupMomentum (types derived from these included: their step may be another), and where groups
// of parameters have different options.
kernels::Rule rule_of(const torch::optim::Optimizer& optimizer);

// Throws BadInput where groups of parameters have different ones.
double learning_rate_of(const torch::optim::Optimizer& optimizer);

}  // namespace asup::sync
