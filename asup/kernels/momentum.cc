#include "asup/kernels/momentum.h"

#include "asup/kernels/isa/table.h"

namespace asup::kernels {

void add_momentum(LeavingMomentum kind, float m, float* gradient, Kept momentum,
                  std::size_t count) {
  best_table().add_momentum(kind, m, gradient, momentum, count);
}

void scale(float* numbers, float factor, std::size_t count) {
  best_table().scale(numbers, factor, count);
}

}  // namespace asup::kernels
