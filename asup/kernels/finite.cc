#include "asup/kernels/finite.h"

#include "asup/kernels/isa/table.h"

namespace asup::kernels {

float largest_magnitude(const float* data, std::size_t count) {
  return best_table().largest_magnitude(data, count);
}

std::size_t count_not_finite(const float* data, std::size_t count) {
  return best_table().count_not_finite(data, count);
}

}  // namespace asup::kernels
