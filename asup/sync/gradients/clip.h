// Clipping by the norm of all gradients. Used from the thread that trains.
#pragma once

#include <vector>

#include "asup/sync/model/tensors.h"

namespace asup::sync {

// The root of the sum of squares of all gradients that are defined. For 32-bit floats on the CPU
// the same bits on every processor, so that ranks with equal gradients clip alike; GPUs of one kind
// agree with each other.
double gradient_norm(const std::vector<NamedTensor>& parameters);

// What gradients of this norm are to be multiplied with so that it is at most `most`: 1 where it
// is, and where it is no finite number. Throws BadInput where `most` is not above 0.
double clip_factor(double norm, double most);

void scale_gradients(const std::vector<NamedTensor>& parameters, double factor);

// All of it; returns the norm before.
double clip_gradients(const std::vector<NamedTensor>& parameters, double most);

}  // namespace asup::sync
