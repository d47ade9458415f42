// Gradients before they leave for other ranks, where the momentum of SGD is on this side of the
// exchange. One pass over memory, and the same bits on every instruction set. Safe from any thread
// on memory of its own.
#pragma once

#include <cstddef>

#include "asup/kernels/kept.h"

namespace asup::kernels {

enum class LeavingMomentum { plain, nesterov };

// u ← m u + g, of which the gradient becomes u, or Nesterov's m u + g.
void add_momentum(LeavingMomentum kind, float m, float* gradient, Kept momentum, std::size_t count);

// Each number times the factor.
void scale(float* numbers, float factor, std::size_t count);

}  // namespace asup::kernels
