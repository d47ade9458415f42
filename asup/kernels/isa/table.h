// The loops of one instruction set, and which of them this processor can run.
// Constant after construction; safe from any thread.
#pragma once

#include <cstddef>
#include <span>

#include "asup/base/dtype.h"
#include "asup/kernels/code.h"
#include "asup/kernels/low_rank.h"
#include "asup/kernels/momentum.h"
#include "asup/kernels/sparse.h"
#include "asup/kernels/update.h"

namespace asup::kernels {

// Arguments are checked by the callers (reduce.cc, cast.cc, …); contracts are in their headers.
struct Table {
  const char* name;
  // needs: one source or more; divisor > 1 only for a sum
  void (*reduce)(Dtype dtype, ReduceOp op, void* dst, const void* const* sources,
                 std::size_t source_count, std::size_t count, int divisor);
  // needs: as reduce; one destination or more
  void (*reduce_to_all)(Dtype dtype, ReduceOp op, void* const* dsts, std::size_t dst_count,
                        const void* const* sources, std::size_t source_count, std::size_t count,
                        int divisor);
  void (*divide)(Dtype dtype, void* data, std::size_t count, int divisor);
  void (*cast)(Dtype from, const void* src, Dtype to, void* dst, std::size_t count);
  void (*update)(const Rule& rule, const UpdateStep& step, float* parameters, float* const* state,
                 const GradientSource* sources, std::size_t source_count, float* const* copies,
                 std::size_t copy_count, std::size_t count);
  double (*sum_of_squares)(const float* data, std::size_t count);
  void (*sums_of_squares)(const float* parameters, const GradientSource* sources,
                          std::size_t source_count, std::size_t count, SquareSums& sums);
  void (*sums_for_ratio)(const Rule& rule, const UpdateStep& step, const float* parameters,
                         const float* const* state, const GradientSource* sources,
                         std::size_t source_count, std::size_t count, SquareSums& sums);
  float (*largest_magnitude)(const float* data, std::size_t count);
  std::size_t (*count_not_finite)(const float* data, std::size_t count);
  // `seed` is how.noise's, or null: what is inline in std::optional is not called from here.
  void (*encode)(Code code, std::byte* to, const float* from, std::size_t count,
                 const Encoding& how, const std::uint64_t* seed);
  void (*decode)(Code code, float* to, const std::byte* from, std::size_t count);
  void (*sum_codes)(Code code, float* to, const float* own, const float* carried,
                    const std::byte* const* codes, std::size_t code_count, std::size_t count,
                    float factor);
  std::size_t (*accumulate)(const Accumulation& how, float* gradient, Kept momentum, Kept sum,
                            std::size_t count, float least, std::uint32_t* found, std::size_t room);
  void (*add_where_not_zero)(float* numbers, const float* few, float factor, std::size_t count);
  void (*add_momentum)(LeavingMomentum kind, float m, float* gradient, Kept momentum,
                       std::size_t count);
  void (*scale)(float* numbers, float factor, std::size_t count);
  void (*project)(const LowRank& shape, const float* gradient, Kept sum, const float* right,
                  float* left);
  void (*project_back)(const LowRank& shape, const float* matrix, const float* left, float* right);
  void (*expand)(const LowRank& shape, const float* left, const float* right, float* product,
                 const float* own, float* rest);
  void (*make_orthonormal)(float* vectors, std::size_t rank, std::size_t numbers);
};

extern const Table kBaselineTable;  // what every processor of the architecture has
#if defined(__x86_64__)
extern const Table kAvx2Table;
extern const Table kAvx512Table;
#endif

// Those that this processor can run, the best last.
std::span<const Table* const> supported_tables();

// The best one, picked once.
const Table& best_table();

}  // namespace asup::kernels
