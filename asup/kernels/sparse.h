// Gradients of which only the largest numbers travel: the rest adds up where it is, until it is
// large. Safe from any thread on memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "asup/kernels/kept.h"

namespace asup::kernels {

// What a gradient g does to a momentum u and a sum v that are kept from step to step:
//   u ← carry · u + gain · g,  v ← v + through · u + direct · g
struct Accumulation {
  float carry = 0, gain = 0, through = 0, direct = 1;
};

// Accumulates `count` numbers, and leaves zeros in the gradient. Without a momentum (nulls), only
// `direct` counts. `found` gets the places at which |v| is `least` or more, or no number, in
// ascending order, `room` of them at most; returns how many there are.
// needs: least > 0; count < 2³²
std::size_t accumulate(const Accumulation& how, float* gradient, Kept momentum, Kept sum,
                       std::size_t count, float least, std::uint32_t* found, std::size_t room);

// Adds `factor` times each of `few`, most of which are zeros: memory beside zeros is not touched.
void add_where_not_zero(float* numbers, const float* few, float factor, std::size_t count);

}  // namespace asup::kernels
