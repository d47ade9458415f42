// Element types and reduction operators: the words every layer uses for numbers in memory.
// Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace asup {

enum class Dtype : std::uint8_t { f32, f64, f16, bf16, i8, u8, i32, i64 };

enum class ReduceOp : std::uint8_t { sum, average, min, max, product };

constexpr std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
    case Dtype::i64:
      return 8;
    case Dtype::f32:
    case Dtype::i32:
      return 4;
    case Dtype::f16:
    case Dtype::bf16:
      return 2;
    case Dtype::i8:
    case Dtype::u8:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::f16 || dtype == Dtype::bf16;
}

constexpr std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::f64:
      return "f64";
    case Dtype::f16:
      return "f16";
    case Dtype::bf16:
      return "bf16";
    case Dtype::i8:
      return "i8";
    case Dtype::u8:
      return "u8";
    case Dtype::i32:
      return "i32";
    case Dtype::i64:
      return "i64";
  }
  return "?";
}

constexpr std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::product:
      return "product";
  }
  return "?";
}

}  // namespace asup
