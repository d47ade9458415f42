// Finding numbers that no training survives.
// Safe from any thread on memory of its own.
#pragma once

#include <cstddef>

namespace asup::kernels {

// The largest magnitude of the floats, 0 of none; NaN where one of them is. Aligned as below.
float largest_magnitude(const float* data, std::size_t count);

// How many of the floats are infinite or NaN. They are aligned as floats are, not more.
std::size_t count_not_finite(const float* data, std::size_t count);

}  // namespace asup::kernels
