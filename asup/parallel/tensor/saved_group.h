// What autograd's nodes of tensor-parallel layers share. Safe from any thread.
#pragma once

#include <torch/torch.h>

#include "asup/parallel/tensor/tensor_group.h"

namespace asup::parallel {

// A group in an autograd node's saved data, and out of it.
c10::IValue held(const TensorGroup& group);
TensorGroup held_group(const c10::IValue& value);

// A backward that communicates has no derivative of its own. Throws Error where one is wanted.
void refuse_second_derivative(const char* what);

}  // namespace asup::parallel
