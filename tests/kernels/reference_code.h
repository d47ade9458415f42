// What codes of floats must be, one number at a time: written from the comment of
// asup/kernels/code.h. Products are taken in double, where they are exact, and rounded once: no
// compiler makes one operation of a product and a sum of floats here.
#pragma once

#include <optional>

#include "asup/kernels/code.h"
#include "tests/kernels/reference.h"

namespace asup::kernels::reference {

inline constexpr Code kCodes[] = {Code::bf16, Code::f16, Code::int8, Code::int4, Code::onebit};

inline bool is_half(Code code) { return code == Code::bf16 || code == Code::f16; }
inline Dtype dtype_of(Code code) { return code == Code::bf16 ? Dtype::bf16 : Dtype::f16; }
inline int bits_of(Code code) { return code == Code::int8 ? 8 : code == Code::int4 ? 4 : 1; }
inline float times(float a, float b) { return static_cast<float>(double{a} * double{b}); }

inline std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// In units of 2^-17, odd, from -65535 to 65535.
inline int noise(std::uint64_t seed, std::uint64_t place) {
  const std::uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15) + place / 1024);
  const auto within = static_cast<std::uint32_t>(place % 1024);
  std::uint32_t x = within % 512 + static_cast<std::uint32_t>(key);
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= static_cast<std::uint32_t>(key >> 32);
  x ^= x >> 15;
  x *= 0x846ca68b;
  x ^= x >> 16;
  return 2 * static_cast<int>(within < 512 ? x & 0xffff : x >> 16) - 65535;
}

struct Coded {
  std::vector<std::byte> code;
  std::vector<float> decoded, lost;
};

// Bits [first, first + width) of a block's words.
inline void set_bits(std::byte* words, std::size_t word, int first, int width, unsigned value) {
  for (int bit = 0; bit < width; ++bit)
    if ((value >> bit & 1) != 0)
      words[word * 4 + static_cast<std::size_t>((first + bit) / 8)] |= std::byte{1}
                                                                       << ((first + bit) % 8);
}

// The scale of a block of finite numbers.
inline float scale_of(Code code, std::span<const float> block) {
  float scale = 0;
  if (code == Code::onebit) {
    const auto sum = [&](float factor) {
      float sums[32] = {};
      for (std::size_t i = 0; i < block.size(); ++i)
        sums[i % 32] += times(std::fabs(block[i]), factor);
      for (const std::size_t apart : {16, 8, 4, 2, 1})
        for (std::size_t lane = 0; lane < apart; ++lane) sums[lane] += sums[lane + apart];
      return sums[0];
    };
    const auto count = static_cast<float>(block.size());
    scale = std::isfinite(sum(1)) ? sum(1) / count : sum(1 / 2048.0f) / count * 2048;
    scale = std::min(scale, std::numeric_limits<float>::max());
  } else {
    for (const float x : block) scale = std::max(scale, std::fabs(x));
    scale /= code == Code::int8 ? 127.0f : 7.0f;
  }
  return scale < std::ldexp(1.0f, -100) ? 0 : scale;
}

inline int quantise(Code code, float x, float largest, float scale, std::optional<int> noise) {
  if (scale == 0) return 0;
  const int most = code == Code::int8 ? 127 : 7;
  float wanted = times(x, static_cast<float>(most) / largest);
  if (noise) wanted += static_cast<float>(std::ldexp(*noise, -17));
  return std::clamp(static_cast<int>(std::nearbyint(wanted)), -most, most);
}

inline void encode_block(Code code, std::span<const float> x, std::optional<std::uint64_t> seed,
                         std::uint64_t first, std::byte* to, float* decoded, float* lost) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(x, finite)) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(to, &nan, sizeof nan);
    std::fill_n(decoded, x.size(), nan);
    std::fill_n(lost, x.size(), 0.0f);
    return;
  }
  const float scale = scale_of(code, x);
  std::memcpy(to, &scale, sizeof scale);
  const int bits = bits_of(code);
  const std::size_t words = kCodeBlock * static_cast<std::size_t>(bits) / 32;
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < kCodeBlock; ++i) {
    const float value = i < x.size() ? x[i] : 0;
    unsigned coded = 0;
    float says = 0;
    if (code == Code::onebit) {
      coded = std::signbit(value) ? 1 : 0;
      says = std::signbit(value) ? -scale : scale;
    } else {
      const auto random = seed ? std::optional(noise(*seed, first + i)) : std::nullopt;
      const int q = quantise(code, value, largest, scale, random);
      coded = static_cast<unsigned>(code == Code::int4 ? q + 8 : q);
      says = times(static_cast<float>(q), scale);
    }
    set_bits(to + sizeof scale, i % words, static_cast<int>(i / words) * bits, bits, coded);
    if (i < x.size()) decoded[i] = says, lost[i] = value - says;
  }
}

// `first`: the place of the first number.
inline Coded encode(Code code, std::span<const float> from, std::span<const float> carried,
                    std::optional<std::uint64_t> seed, std::uint64_t first) {
  const std::size_t count = from.size();
  std::vector<float> x(from.begin(), from.end());
  for (std::size_t i = 0; i < carried.size(); ++i) x[i] += carried[i];
  Coded coded{{}, std::vector<float>(count), std::vector<float>(count)};
  if (is_half(code)) {
    coded.code.resize(2 * count);
    for (std::size_t i = 0; i < count; ++i) {
      const Bits bits = encode_half(dtype_of(code), x[i]);
      store(dtype_of(code), coded.code.data(), i, bits);
      coded.decoded[i] = static_cast<float>(decode_half(dtype_of(code), bits));
      coded.lost[i] = std::isfinite(coded.decoded[i]) ? x[i] - coded.decoded[i] : 0;
    }
    return coded;
  }
  const std::size_t bytes = 4 + kCodeBlock * static_cast<std::size_t>(bits_of(code)) / 8;
  coded.code.resize((count + kCodeBlock - 1) / kCodeBlock * bytes);
  for (std::size_t begin = 0; begin < count; begin += kCodeBlock)
    encode_block(code, std::span(x).subspan(begin, std::min(kCodeBlock, count - begin)), seed,
                 first + begin, coded.code.data() + begin / kCodeBlock * bytes,
                 coded.decoded.data() + begin, coded.lost.data() + begin);
  return coded;
}

}  // namespace asup::kernels::reference
