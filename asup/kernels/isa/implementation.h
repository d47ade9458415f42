// The table of the instruction set that the including file is compiled for.
// Pure functions; safe from any thread.
#pragma once

#include "asup/kernels/isa/cast_loops.h"
#include "asup/kernels/isa/code_loops.h"
#include "asup/kernels/isa/divide_loops.h"
#include "asup/kernels/isa/low_rank_loops.h"
#include "asup/kernels/isa/momentum_loops.h"
#include "asup/kernels/isa/ratio_loops.h"
#include "asup/kernels/isa/reduce_loops.h"
#include "asup/kernels/isa/sparse_loops.h"
#include "asup/kernels/isa/table.h"
#include "asup/kernels/isa/update_loops.h"

namespace asup::kernels {
namespace {

template <typename Visitor>
inline void with_element(Dtype dtype, Visitor visit) {
  switch (dtype) {
    case Dtype::f32:
      return visit(F32());
    case Dtype::f64:
      return visit(F64());
    case Dtype::f16:
      return visit(F16());
    case Dtype::bf16:
      return visit(Bf16());
    case Dtype::i8:
      return visit(Native<std::int8_t>());
    case Dtype::u8:
      return visit(Native<std::uint8_t>());
    case Dtype::i32:
      return visit(Native<std::int32_t>());
    case Dtype::i64:
      return visit(Native<std::int64_t>());
  }
}

void divide(Dtype dtype, void* data, std::size_t count, int divisor) {
  auto* bytes = static_cast<std::byte*>(data);
  with_element(dtype, [&](auto element) {
    using Element = decltype(element);
    using T = typename Element::Value;
    if constexpr (std::is_floating_point_v<T>)
      fold<Sum, Element, Element, Element, 0>(bytes, bytes, nullptr, count, T{1} / divisor);
    else if constexpr (sizeof(T) == 1)
      divide_integers<T, float>(bytes, count, divisor);
    else if constexpr (sizeof(T) == 4)
      divide_integers<T, double>(bytes, count, divisor);
    else
      divide_integers<T, T>(bytes, count, divisor);
  });
}

template <typename Also>
void reduce_also(Dtype dtype, ReduceOp op, void* dst, const void* const* sources,
                 std::size_t source_count, std::size_t count, int divisor, Also also) {
  auto* to = static_cast<std::byte*>(dst);
  auto* from = reinterpret_cast<const std::byte* const*>(sources);
  with_element(dtype, [&](auto element) {
    using Element = decltype(element);
    using T = typename Element::Value;
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        if constexpr (std::is_floating_point_v<T>)
          return reduce_sources<Sum, Element>(to, from, source_count, count, T{1} / divisor, also);
        else
          return reduce_sources<Sum, Element>(to, from, source_count, count, NoScale(), also);
      case ReduceOp::product:
        return reduce_sources<Product, Element>(to, from, source_count, count, NoScale(), also);
      case ReduceOp::min:
        return reduce_sources<Min, Element>(to, from, source_count, count, NoScale(), also);
      case ReduceOp::max:
        return reduce_sources<Max, Element>(to, from, source_count, count, NoScale(), also);
    }
  });
}

void reduce(Dtype dtype, ReduceOp op, void* dst, const void* const* sources,
            std::size_t source_count, std::size_t count, int divisor) {
  reduce_also(dtype, op, dst, sources, source_count, count, divisor, NoCopies());
  if (divisor > 1 && dtype >= Dtype::i8) divide(dtype, dst, count, divisor);
}

void reduce_to_all(Dtype dtype, ReduceOp op, void* const* dsts, std::size_t dst_count,
                   const void* const* sources, std::size_t source_count, std::size_t count,
                   int divisor) {
  const Copies copies{reinterpret_cast<std::byte* const*>(dsts + 1), dst_count - 1};
  reduce_also(dtype, op, dsts[0], sources, source_count, count, divisor, copies);
  if (divisor == 1 || dtype < Dtype::i8) return;
  for (std::size_t d = 0; d < dst_count; ++d) divide(dtype, dsts[d], count, divisor);
}

void cast(Dtype from, const void* src, Dtype to, void* dst, std::size_t count) {
  with_element(from, [&](auto from_element) {
    with_element(to, [&](auto to_element) {
      cast_elements<decltype(from_element), decltype(to_element)>(
          static_cast<std::byte*>(dst), static_cast<const std::byte*>(src), count);
    });
  });
}

constexpr Table make_table(const char* name) {
  return {name,
          reduce,
          reduce_to_all,
          divide,
          cast,
          update,
          sum_of_squares,
          sums_of_squares,
          sums_for_ratio,
          largest_magnitude,
          count_not_finite,
          encode,
          decode,
          sum_codes,
          accumulate,
          add_where_not_zero,
          add_momentum,
          scale,
          project,
          project_back,
          expand,
          make_orthonormal};
}

}  // namespace
}  // namespace asup::kernels
