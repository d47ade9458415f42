#include "asup/kernels/low_rank.h"

#include "asup/kernels/isa/table.h"

namespace asup::kernels {

void project(const LowRank& shape, const float* gradient, Kept sum, const float* right,
             float* left) {
  best_table().project(shape, gradient, sum, right, left);
}

void project_back(const LowRank& shape, const float* matrix, const float* left, float* right) {
  best_table().project_back(shape, matrix, left, right);
}

void expand(const LowRank& shape, const float* left, const float* right, float* product,
            const float* own, float* rest) {
  best_table().expand(shape, left, right, product, own, rest);
}

void make_orthonormal(float* vectors, std::size_t rank, std::size_t numbers) {
  best_table().make_orthonormal(vectors, rank, numbers);
}

}  // namespace asup::kernels
