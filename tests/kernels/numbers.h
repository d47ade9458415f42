// Numbers for tests of kernels. Pure; safe from any thread.
#pragma once

#include <random>
#include <vector>

namespace asup::kernels {

using Floats = std::vector<float>;

// Normally distributed.
inline Floats numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats result(count);
  for (float& number : result) number = normal(random);
  return result;
}

}  // namespace asup::kernels
