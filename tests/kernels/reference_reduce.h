// Reductions and casts of single elements, for the tests to compare with.
#pragma once

#include "tests/kernels/reference.h"

namespace asup::kernels::reference {

// The type that a float type is accumulated in.
inline Dtype accumulator_of(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

// One operation on values of the accumulator's type, rounded to it. The extra bits of a long double
// make no difference to the second rounding for f32 (64 >= 2 * 24 + 2); f64 computes directly.
inline Real combine(Dtype accumulator, ReduceOp op, Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return accumulator == Dtype::f64
                 ? Real{x + y}
                 : decode_float(accumulator, encode_float(accumulator, a + b));
    case ReduceOp::product:
      return accumulator == Dtype::f64
                 ? Real{x * y}
                 : decode_float(accumulator, encode_float(accumulator, a * b));
    case ReduceOp::min:
      return a < b ? a : b;
    case ReduceOp::max:
      return a > b ? a : b;
  }
  return 0;
}

inline std::uint64_t combine_integers(ReduceOp op, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return x + y;
    case ReduceOp::product:
      return x * y;
    case ReduceOp::min:
      return a < b ? x : y;
    case ReduceOp::max:
      return a > b ? x : y;
  }
  return 0;
}

inline Bits reduce(Dtype dtype, ReduceOp op, std::span<const Bits> inputs, int divisor) {
  if (is_floating(dtype)) {
    const Dtype accumulator = accumulator_of(dtype);
    Real value = decode_float(dtype, inputs[0]);
    for (const Bits input : inputs.subspan(1))
      value = combine(accumulator, op, value, decode_float(dtype, input));
    if (divisor > 1) {
      const Real reciprocal =
          accumulator == Dtype::f64 ? Real{1.0 / divisor} : Real{1.0f / divisor};
      value = combine(accumulator, ReduceOp::product, value, reciprocal);
    }
    return encode_float(dtype, value);
  }
  Bits result = inputs[0];
  for (const Bits input : inputs.subspan(1))
    result = encode_integer(
        dtype, combine_integers(op, decode_integer(dtype, result), decode_integer(dtype, input)));
  return encode_integer(dtype, static_cast<std::uint64_t>(decode_integer(dtype, result) / divisor));
}

inline Bits cast(Dtype from, Bits bits, Dtype to) {
  if (is_floating(to)) return encode_float(to, decode(from, bits));
  if (!is_floating(from))
    return encode_integer(to, static_cast<std::uint64_t>(decode_integer(from, bits)));
  const Real value = std::trunc(decode_float(from, bits));
  const Real highest = std::ldexp(Real{1}, bits_of(to) - (to == Dtype::u8 ? 0 : 1)) - 1;
  const Real lowest = to == Dtype::u8 ? 0 : -highest - 1;
  if (std::isnan(value)) return 0;
  const Real clamped = std::fmin(std::fmax(value, lowest), highest);
  return encode_integer(to, static_cast<std::uint64_t>(static_cast<std::int64_t>(clamped)));
}

}  // namespace asup::kernels::reference
