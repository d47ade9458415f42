// Products of a large matrix with a few vectors, for gradients that travel as matrices of low rank.
// Safe from any thread on memory of its own.
#pragma once

#include <cstddef>

#include "asup/kernels/sparse.h"

namespace asup::kernels {

// A matrix, row by row, and its factors: `rank` vectors for the left side, each as long as there
// are rows, and for the right side, each as long as there are columns, one after the other.
struct LowRank {
  std::size_t rows = 0, columns = 0, rank = 0;
};

// sum.after = sum.before + gradient, and left[k][i] = Σ_j sum.after[i][j] right[k][j].
// needs: gradient and sum.after do not overlap
void project(const LowRank& shape, const float* gradient, Kept sum, const float* right,
             float* left);

// right[k][j] = Σ_i matrix[i][j] left[k][i], in the order of i.
void project_back(const LowRank& shape, const float* matrix, const float* left, float* right);

// product[i][j] = Σ_k left[k][i] right[k][j], in the order of k; Σ_k left[k][i] own[k][j] is taken
// from rest[i][j].
void expand(const LowRank& shape, const float* left, const float* right, float* product,
            const float* own, float* rest);

// Makes vectors of so many numbers have length 1 and right angles to each other, one after the
// other. One that lies in the space of those before it, or is no vector of numbers, becomes another
// that does not, the same everywhere. needs: no more vectors than numbers
void make_orthonormal(float* vectors, std::size_t rank, std::size_t numbers);

}  // namespace asup::kernels
