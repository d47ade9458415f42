#include "asup/kernels/sparse.h"

#include "asup/kernels/isa/table.h"

namespace asup::kernels {

std::size_t accumulate(const Accumulation& how, float* gradient, Kept momentum, Kept sum,
                       std::size_t count, float least, std::uint32_t* found, std::size_t room) {
  return best_table().accumulate(how, gradient, momentum, sum, count, least, found, room);
}

void add_where_not_zero(float* numbers, const float* few, float factor, std::size_t count) {
  best_table().add_where_not_zero(numbers, few, factor, count);
}

}  // namespace asup::kernels
