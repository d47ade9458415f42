#include "asup/kernels/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "asup/kernels/isa/table.h"
#include "tests/kernels/numbers.h"

namespace asup::kernels {
namespace {

const LowRank kShapes[] = {{1, 1, 1}, {3, 5, 1}, {7, 33, 2}, {18, 64, 3}, {20, 31, 4}, {9, 50, 6}};

template <typename Test>
void on_every_instruction_set(Test test) {
  for (const Table* table : supported_tables())
    for (const LowRank& shape : kShapes) {
      SCOPED_TRACE(::testing::Message() << table->name << ", " << shape.rows << " x "
                                        << shape.columns << ", rank " << shape.rank);
      test(*table, shape);
    }
}

double tolerance(std::size_t terms) { return 1e-5 * std::sqrt(static_cast<double>(terms)); }

TEST(LowRank, AMatrixIsAddedUpAndMultiplied) {
  on_every_instruction_set([](const Table& table, const LowRank& shape) {
    const std::size_t count = shape.rows * shape.columns;
    const Floats gradient = numbers(count, 1), before = numbers(count, 2);
    const Floats right = numbers(shape.rank * shape.columns, 3);
    Floats after(count), left(shape.rank * shape.rows);
    table.project(shape, gradient.data(), {before.data(), after.data()}, right.data(), left.data());
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(after[i], before[i] + gradient[i]);
    for (std::size_t k = 0; k < shape.rank; ++k)
      for (std::size_t i = 0; i < shape.rows; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < shape.columns; ++j)
          sum += double{after[i * shape.columns + j]} * right[k * shape.columns + j];
        EXPECT_NEAR(left[k * shape.rows + i], sum, tolerance(shape.columns));
      }
  });
}

TEST(LowRank, AMatrixIsMultipliedFromTheOtherSideToTheSameBitsEverywhere) {
  on_every_instruction_set([](const Table& table, const LowRank& shape) {
    const Floats matrix = numbers(shape.rows * shape.columns, 1);
    const Floats left = numbers(shape.rank * shape.rows, 2);
    Floats right(shape.rank * shape.columns, 7), expected(right.size());
    table.project_back(shape, matrix.data(), left.data(), right.data());
    kBaselineTable.project_back(shape, matrix.data(), left.data(), expected.data());
    EXPECT_EQ(right, expected);
    for (std::size_t k = 0; k < shape.rank; ++k)
      for (std::size_t j = 0; j < shape.columns; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < shape.rows; ++i)
          sum += double{matrix[i * shape.columns + j]} * left[k * shape.rows + i];
        EXPECT_NEAR(right[k * shape.columns + j], sum, tolerance(shape.rows));
      }
  });
}

TEST(LowRank, WhatFactorsStandForIsTakenFromTheRest) {
  on_every_instruction_set([](const Table& table, const LowRank& shape) {
    const std::size_t count = shape.rows * shape.columns;
    const Floats left = numbers(shape.rank * shape.rows, 1), whole = numbers(count, 3);
    const Floats right = numbers(shape.rank * shape.columns, 2);
    const Floats own = numbers(shape.rank * shape.columns, 4);
    Floats product(count, 7), rest = whole, expected(count), other_rest = whole;
    table.expand(shape, left.data(), right.data(), product.data(), own.data(), rest.data());
    kBaselineTable.expand(shape, left.data(), right.data(), expected.data(), own.data(),
                          other_rest.data());
    EXPECT_EQ(product, expected);
    EXPECT_EQ(rest, other_rest);
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.columns; ++j) {
        double sum = 0, own_sum = 0;
        for (std::size_t k = 0; k < shape.rank; ++k) {
          sum += double{left[k * shape.rows + i]} * right[k * shape.columns + j];
          own_sum += double{left[k * shape.rows + i]} * own[k * shape.columns + j];
        }
        const std::size_t at = i * shape.columns + j;
        EXPECT_NEAR(product[at], sum, 1e-5);
        EXPECT_NEAR(rest[at], whole[at] - own_sum, 1e-5);
      }
  });
}

void expect_orthonormal(const Floats& vectors, std::size_t rank, std::size_t count) {
  for (std::size_t a = 0; a < rank; ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < count; ++i)
        product += double{vectors[a * count + i]} * vectors[b * count + i];
      EXPECT_NEAR(product, a == b ? 1 : 0, 1e-5) << a << " and " << b;
    }
}

TEST(LowRank, VectorsBecomeOrthonormalToTheSameBitsEverywhere) {
  constexpr std::size_t kRank = 4, kCount = 37;
  const Floats given = numbers(kRank * kCount, 1);
  Floats first;
  for (const Table* table : supported_tables()) {
    Floats vectors = given;
    table->make_orthonormal(vectors.data(), kRank, kCount);
    expect_orthonormal(vectors, kRank, kCount);
    // The first keeps its direction.
    for (std::size_t i = 1; i < kCount; ++i)
      EXPECT_NEAR(vectors[i] / vectors[0], given[i] / given[0],
                  1e-4 * std::abs(given[i] / given[0]));
    if (first.empty()) first = vectors;
    EXPECT_EQ(vectors, first) << table->name;
  }
}

TEST(LowRank, VectorsThatAreNoneBecomeOthers) {
  constexpr std::size_t kRank = 4, kCount = 6;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const Floats zeros(kRank * kCount), nans(kRank * kCount, kNan), large(kRank * kCount, kInfinite);
  Floats twice = numbers(kRank * kCount, 1);
  for (std::size_t i = 0; i < kCount; ++i) twice[kCount + i] = 2 * twice[i];
  for (Floats vectors : {zeros, nans, large, twice}) {
    make_orthonormal(vectors.data(), kRank, kCount);
    expect_orthonormal(vectors, kRank, kCount);
  }
}

}  // namespace
}  // namespace asup::kernels
