// A step of torch's SGD, Adam and AdamW in one pass over memory. Their own step() has a pass for
// each operation on each parameter, and on a GPU a launch: for a ResNet-50 several hundred, while
// which the GPU has little to do. The numbers are the same but for rounding, and so is the state.
#pragma once

#include <torch/torch.h>

namespace asup::optim {

// Whether the step was taken. Where it was not, nothing has changed: another optimizer, a class
// derived from one of these, 16-bit floats on a CPU, or gradients that do not lie in memory as
// their parameters.
bool step_at_once(torch::optim::Optimizer& optimizer);

// At once, or as the optimizer does it.
void step(torch::optim::Optimizer& optimizer);

// The same of an SGD whose gradients are zeros but for a few: they are read, and parameters are
// touched where they are not zero. False, and nothing has changed, where all parameters move: with
// momentum, or weight decay, which a caller that has it leaves to step(); or on a GPU.
bool step_where_not_zero(torch::optim::Optimizer& optimizer);

}  // namespace asup::optim
