// Products of a large matrix with a few vectors (low_rank.h): a pass over the matrix for four of
// them at most. Pure; safe from any thread.
#pragma once

#include "asup/kernels/isa/vectors.h"
#include "asup/kernels/low_rank.h"

namespace asup::kernels {
namespace {

constexpr std::size_t kRowsAtOnce = 4;  // of the matrix

inline Floats load_floats(const float* from) {
  return load_vector<Floats>(reinterpret_cast<const std::byte*>(from));
}

inline void store_floats(float* to, Floats numbers) {
  store_vector(reinterpret_cast<std::byte*>(to), numbers);
}

inline float sum_of(Floats numbers) {
  float lanes[kFloats], sum = 0;
  __builtin_memcpy(lanes, &numbers, sizeof lanes);
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Calls `visit` with how many vectors a pass over the matrix keeps in registers, a constant, and
// the first of them, until all are done.
template <typename Visitor>
inline void for_vectors(std::size_t rank, Visitor visit) {
  std::size_t first = 0;
  for (; first + 4 <= rank; first += 4) visit(std::integral_constant<std::size_t, 4>(), first);
  if (rank - first == 3) visit(std::integral_constant<std::size_t, 3>(), first);
  if (rank - first == 2) visit(std::integral_constant<std::size_t, 2>(), first);
  if (rank - first == 1) visit(std::integral_constant<std::size_t, 1>(), first);
}

// The gradient is added in the first pass alone.
template <std::size_t kVectors, bool kAdds>
inline void project_row(const float* gradient, Kept sum, const float* right, std::size_t columns,
                        float* left, std::size_t rows) {
  Floats sums[kVectors] = {};
  float last[kVectors] = {};
  std::size_t j = 0;
  for (; j + kFloats <= columns; j += kFloats) {
    Floats m;
    if constexpr (kAdds) {
      m = load_floats(sum.before + j) + load_floats(gradient + j);
      store_floats(sum.after + j, m);
    } else {
      m = load_floats(sum.after + j);
    }
    for (std::size_t k = 0; k < kVectors; ++k) sums[k] += m * load_floats(right + k * columns + j);
  }
  for (; j < columns; ++j) {
    if constexpr (kAdds) sum.after[j] = sum.before[j] + gradient[j];
    for (std::size_t k = 0; k < kVectors; ++k) last[k] += sum.after[j] * right[k * columns + j];
  }
  for (std::size_t k = 0; k < kVectors; ++k) left[k * rows] = sum_of(sums[k]) + last[k];
}

void project(const LowRank& shape, const float* gradient, Kept sum, const float* right,
             float* left) {
  const std::size_t rows = shape.rows, columns = shape.columns;
  for_vectors(shape.rank, [&](auto vectors, std::size_t first) {
    const float* of = right + first * columns;
    float* to = left + first * rows;
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t at = i * columns;
      const Kept row{sum.before + at, sum.after + at};
      if (first == 0)
        project_row<vectors.value, true>(gradient + at, row, of, columns, to + i, rows);
      else
        project_row<vectors.value, false>(gradient + at, row, of, columns, to + i, rows);
    }
  });
}

template <std::size_t kVectors, std::size_t kRows>
inline void project_rows_back(const float* matrix, std::size_t columns, const float* left,
                              std::size_t rows, float* right) {
  float factors[kVectors][kRows];
  for (std::size_t k = 0; k < kVectors; ++k)
    for (std::size_t i = 0; i < kRows; ++i) factors[k][i] = left[k * rows + i];
  std::size_t j = 0;
  for (; j + kFloats <= columns; j += kFloats) {
    Floats m[kRows];
    for (std::size_t i = 0; i < kRows; ++i) m[i] = load_floats(matrix + i * columns + j);
    for (std::size_t k = 0; k < kVectors; ++k) {
      Floats sum = load_floats(right + k * columns + j);
      for (std::size_t i = 0; i < kRows; ++i) sum += factors[k][i] * m[i];
      store_floats(right + k * columns + j, sum);
    }
  }
  for (; j < columns; ++j)
    for (std::size_t k = 0; k < kVectors; ++k)
      for (std::size_t i = 0; i < kRows; ++i)
        right[k * columns + j] += factors[k][i] * matrix[i * columns + j];
}

void project_back(const LowRank& shape, const float* matrix, const float* left, float* right) {
  const std::size_t rows = shape.rows, columns = shape.columns;
  for (std::size_t i = 0; i < shape.rank * columns; ++i) right[i] = 0;
  for_vectors(shape.rank, [&](auto vectors, std::size_t first) {
    const float* of = left + first * rows;
    float* to = right + first * columns;
    std::size_t i = 0;
    for (; i + kRowsAtOnce <= rows; i += kRowsAtOnce)
      project_rows_back<vectors.value, kRowsAtOnce>(matrix + i * columns, columns, of + i, rows,
                                                    to);
    for (; i < rows; ++i)
      project_rows_back<vectors.value, 1>(matrix + i * columns, columns, of + i, rows, to);
  });
}

template <std::size_t kVectors>
inline Floats expanded(const float* factors, const float* right, std::size_t columns) {
  Floats sum = factors[0] * load_floats(right);
  for (std::size_t k = 1; k < kVectors; ++k) sum += factors[k] * load_floats(right + k * columns);
  return sum;
}

template <std::size_t kVectors>
inline float expanded_one(const float* factors, const float* right, std::size_t columns) {
  float sum = factors[0] * right[0];
  for (std::size_t k = 1; k < kVectors; ++k) sum += factors[k] * right[k * columns];
  return sum;
}

template <std::size_t kVectors, bool kIsFirst>
inline void expand_row(const float* left, std::size_t rows, const float* right, const float* own,
                       std::size_t columns, float* product, float* rest) {
  float factors[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) factors[k] = left[k * rows];
  std::size_t j = 0;
  for (; j + kFloats <= columns; j += kFloats) {
    const Floats part = expanded<kVectors>(factors, right + j, columns);
    store_floats(product + j, kIsFirst ? part : load_floats(product + j) + part);
    store_floats(rest + j, load_floats(rest + j) - expanded<kVectors>(factors, own + j, columns));
  }
  for (; j < columns; ++j) {
    const float part = expanded_one<kVectors>(factors, right + j, columns);
    product[j] = kIsFirst ? part : product[j] + part;
    rest[j] -= expanded_one<kVectors>(factors, own + j, columns);
  }
}

void expand(const LowRank& shape, const float* left, const float* right, float* product,
            const float* own, float* rest) {
  const std::size_t rows = shape.rows, columns = shape.columns;
  for_vectors(shape.rank, [&](auto vectors, std::size_t first) {
    const float* of = left + first * rows;
    const float* by = right + first * columns;
    const float* by_own = own + first * columns;
    for (std::size_t i = 0; i < rows; ++i) {
      float* to = product + i * columns;
      float* from = rest + i * columns;
      if (first == 0)
        expand_row<vectors.value, true>(of + i, rows, by, by_own, columns, to, from);
      else
        expand_row<vectors.value, false>(of + i, rows, by, by_own, columns, to, from);
    }
  });
}

inline double product_of(const float* a, const float* b, std::size_t numbers) {
  double sum = 0;
  for (std::size_t i = 0; i < numbers; ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

// Takes from a vector what lies in the direction of those before it.
inline void take_off(float* vector, const float* before, std::size_t count, std::size_t numbers) {
  for (std::size_t k = 0; k < count; ++k) {
    const float* other = before + k * numbers;
    const double along = product_of(vector, other, numbers);
    for (std::size_t i = 0; i < numbers; ++i)
      vector[i] = static_cast<float>(double{vector[i]} - along * double{other[i]});
  }
}

// Numbers between -1 and 1 that have nothing to do with each other.
inline void scatter(float* vector, std::size_t seed, std::size_t numbers) {
  std::uint64_t state = 0x9e3779b97f4a7c15 * (seed + 1);
  for (std::size_t i = 0; i < numbers; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    vector[i] = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
  }
}

void make_orthonormal(float* vectors, std::size_t rank, std::size_t numbers) {
  constexpr double kLeast = 1e-10;  // of its squared length, to be left of a vector
  for (std::size_t k = 0; k < rank; ++k) {
    float* vector = vectors + k * numbers;
    double before = product_of(vector, vector, numbers);
    take_off(vector, vectors, k, numbers);
    double length = product_of(vector, vector, numbers);
    for (std::size_t seed = k; !(before < 1e76 && length > kLeast * before && length > 1e-76);
         seed += rank) {
      scatter(vector, seed, numbers);
      before = product_of(vector, vector, numbers);
      take_off(vector, vectors, k, numbers);
      length = product_of(vector, vector, numbers);
    }
    // What is left of a vector that was nearly in their space has no right angle to them yet.
    const double factor = 1 / __builtin_sqrt(length);
    for (std::size_t i = 0; i < numbers; ++i)
      vector[i] = static_cast<float>(factor * double{vector[i]});
    take_off(vector, vectors, k, numbers);
  }
}

}  // namespace
}  // namespace asup::kernels
