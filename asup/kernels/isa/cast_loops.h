// Conversions, each rounded once. Halves go to and from f64 and integers through a tile of floats.
// Pure; safe from any thread.
#pragma once

#include "asup/kernels/isa/fold.h"

namespace asup::kernels {
namespace {

// C++'s static_cast, and beyond the integer's range its nearest value; NaN gives 0.
template <typename To, typename From>
inline To saturate(From x) {
  constexpr int kBits = 8 * sizeof(To) - std::is_signed_v<To>;
  constexpr To kHighest = static_cast<To>(~std::uint64_t{0} >> (64 - kBits));
  constexpr To kLowest = std::is_signed_v<To> ? static_cast<To>(-kHighest - 1) : To{0};
  // The first value above the range is a power of two, hence exact, unlike the highest within it.
  constexpr From kAbove = static_cast<From>(std::uint64_t{1} << (kBits - 1)) * 2;
  if (x != x) return 0;
  if (x <= static_cast<From>(kLowest)) return kLowest;
  if (x >= kAbove) return kHighest;
  return static_cast<To>(x);
}

template <typename To, typename From>
inline To convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return saturate<To>(x);
  else
    return static_cast<To>(x);
}

// A float on the way to a half: rounded to odd (of the two neighbours of x, the one whose last bit
// is 1), after which rounding to the half gives what rounding x itself would have given. S. Boldo
// and G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding
// to odd", IEEE Transactions on Computers 57 (2008), doi:10.1109/TC.2007.70819.
inline float round_to_odd(double x) {
  const float near = static_cast<float>(x);
  const double back = static_cast<double>(near);
  auto bits = __builtin_bit_cast(std::uint32_t, near);
  bits -= __builtin_fabs(back) > __builtin_fabs(x);
  bits |= back != x;
  return __builtin_bit_cast(float, bits);
}

template <typename From>
inline float on_the_way_to_half(From x) {
  if constexpr (std::is_same_v<From, std::int64_t>) {
    // A double has 53 bits: what lies below the upper 53 is rounded to odd, too.
    const bool fits = x >= -(std::int64_t{1} << 53) && x <= (std::int64_t{1} << 53);
    const std::int64_t odd = (x & ~std::int64_t{0x7ff}) | std::int64_t{(x & 0x7ff) != 0} << 11;
    return round_to_odd(static_cast<double>(fits ? x : odd));
  } else {
    return round_to_odd(static_cast<double>(x));
  }
}

template <typename From, typename To, typename Convert>
inline void for_each(std::byte* __restrict dst, const std::byte* __restrict src, std::size_t count,
                     Convert convert) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    From x;
    __builtin_memcpy(&x, src + i * sizeof(From), sizeof(From));
    const To y = convert(x);
    __builtin_memcpy(dst + i * sizeof(To), &y, sizeof(To));
  }
}

// Calls pass(begin, size) for tiles of floats that stay in the first-level cache.
constexpr std::size_t kCastTile = 2048;
template <typename Pass>
inline void for_each_tile(std::size_t count, Pass pass) {
  for (std::size_t begin = 0; begin < count; begin += kCastTile)
    pass(begin, count - begin < kCastTile ? count - begin : kCastTile);
}

template <typename Element>
constexpr bool kIsHalf = Element::kSize < sizeof(typename Element::Value);

template <typename From, typename To>
void cast_elements(std::byte* dst, const std::byte* src, std::size_t count) {
  using X = typename From::Value;
  using Y = typename To::Value;
  if constexpr (kIsHalf<From> && std::is_same_v<To, F32>) {
    transfer<From, typename From::Exact>(dst, src, count);
  } else if constexpr (std::is_same_v<From, F32> && kIsHalf<To>) {
    transfer<typename To::Exact, To>(dst, src, count);
  } else if constexpr (kIsHalf<From>) {
    alignas(kLineBytes) std::byte tile[kCastTile * sizeof(float)];
    for_each_tile(count, [&](std::size_t begin, std::size_t size) {
      cast_elements<From, F32>(tile, src + begin * From::kSize, size);
      cast_elements<F32, To>(dst + begin * To::kSize, tile, size);
    });
  } else if constexpr (kIsHalf<To>) {
    alignas(kLineBytes) std::byte tile[kCastTile * sizeof(float)];
    for_each_tile(count, [&](std::size_t begin, std::size_t size) {
      for_each<X, float>(tile, src + begin * From::kSize, size, on_the_way_to_half<X>);
      cast_elements<F32, To>(dst + begin * To::kSize, tile, size);
    });
  } else {
    for_each<X, Y>(dst, src, count, convert<Y, X>);
  }
}

}  // namespace
}  // namespace asup::kernels
