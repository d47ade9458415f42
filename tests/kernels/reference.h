// What the kernels must compute, one element at a time and written differently: every element is
// decoded to a long double, which holds all of them exactly, and encoded by rounding once. C++ does
// that for f32 and f64; f16 and bf16 are taken apart here, as IEEE 754 defines them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "asup/base/dtype.h"

namespace asup::kernels::reference {

inline constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16,
                                    Dtype::i8,  Dtype::u8,  Dtype::i32, Dtype::i64};

using Real = long double;
static_assert(std::numeric_limits<Real>::digits >= 64, "an i64 must fit");

// One element as it lies in memory, in the low bytes.
using Bits = std::uint64_t;

// precision: bits of the significand, with the leading one; exponents of normal numbers
struct FloatFormat {
  int precision, lowest_exponent;
};

inline FloatFormat format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return {11, -14};
    case Dtype::bf16:
      return {8, -126};
    case Dtype::f32:
      return {24, -126};
    default:
      return {53, -1022};
  }
}

inline int bits_of(Dtype dtype) { return static_cast<int>(8 * size_of(dtype)); }

inline Real decode_half(Dtype dtype, Bits bits) {
  const FloatFormat format = format_of(dtype);
  const int fraction_bits = format.precision - 1;
  const int exponent_bits = 16 - format.precision;
  const Bits fraction = bits & ((Bits{1} << fraction_bits) - 1);
  const int exponent = static_cast<int>((bits >> fraction_bits) & ((Bits{1} << exponent_bits) - 1));
  const Real sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::numeric_limits<Real>::quiet_NaN()
                         : sign * std::numeric_limits<Real>::infinity();
  const Bits leading = exponent == 0 ? 0 : Bits{1} << fraction_bits;
  const int scale = std::max(exponent, 1) - 1 + format.lowest_exponent - fraction_bits;
  return sign * std::ldexp(static_cast<Real>(fraction | leading), scale);
}

inline Bits encode_half(Dtype dtype, Real value) {
  const FloatFormat format = format_of(dtype);
  const int fraction_bits = format.precision - 1;
  const Bits infinity = 0x8000 - (Bits{1} << fraction_bits);
  const Bits sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return infinity | Bits{1} << (fraction_bits - 1);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const Real magnitude = std::fabs(value);
  const int exponent = std::max(std::ilogb(magnitude), format.lowest_exponent);
  // The significand in units of its last place; nearbyint rounds half to even.
  const Real units = std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent));
  // A significand rounded up to the next power of two carries into the exponent by itself.
  const Bits biased = static_cast<Bits>(exponent - format.lowest_exponent);
  return sign | std::min((biased << fraction_bits) + static_cast<Bits>(units), infinity);
}

inline Real decode_float(Dtype dtype, Bits bits) {
  if (dtype == Dtype::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (dtype == Dtype::f64) return std::bit_cast<double>(bits);
  return decode_half(dtype, bits);
}

inline Bits encode_float(Dtype dtype, Real value) {
  if (dtype == Dtype::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == Dtype::f64) return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  return encode_half(dtype, value);
}

// As a signed number, or u8's own value.
inline std::int64_t decode_integer(Dtype dtype, Bits bits) {
  if (dtype == Dtype::u8) return static_cast<std::uint8_t>(bits);
  const int unused = 64 - bits_of(dtype);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

inline Bits encode_integer(Dtype dtype, std::uint64_t value) {
  return bits_of(dtype) == 64 ? value : value & ((Bits{1} << bits_of(dtype)) - 1);
}

inline Real decode(Dtype dtype, Bits bits) {
  return is_floating(dtype) ? decode_float(dtype, bits)
                            : static_cast<Real>(decode_integer(dtype, bits));
}

inline Bits load(Dtype dtype, const std::byte* data, std::size_t index) {
  Bits bits = 0;
  std::memcpy(&bits, data + index * size_of(dtype), size_of(dtype));
  return bits;
}

inline void store(Dtype dtype, std::byte* data, std::size_t index, Bits bits) {
  std::memcpy(data + index * size_of(dtype), &bits, size_of(dtype));
}

// Equal to the bit; any NaN equals any other.
inline bool same(Dtype dtype, Bits a, Bits b) {
  if (a == b) return true;
  return is_floating(dtype) && std::isnan(decode(dtype, a)) && std::isnan(decode(dtype, b));
}

}  // namespace asup::kernels::reference
