// onebit: signs, and one magnitude for all of a block (code.h).
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/code/block.h"

namespace asup::kernels {
namespace {

class OneBitCode {
  static constexpr std::size_t kRows = 32;  // numbers of a word
  static constexpr std::size_t kRowBytes = kBlockBytes / kRows;
  static constexpr std::size_t kVectors = kRowBytes / kVectorBytes;

 public:
  using Exact = F32;
  static constexpr std::size_t kBytes = sizeof(float) + kRowBytes;

  static constexpr std::size_t coded_bytes(std::size_t) { return kBytes; }

  static void encode(const Block& block) {
    const float sum = block.carried != nullptr ? gather<true>(block.lost, block.from, block.carried)
                                               : gather<false>(block.lost, block.from, nullptr);
    const float count = static_cast<float>(block.count);
    const float mean = sum < __builtin_inff() ? sum / count : mean_of_huge(block.lost, count);
    if (mean != mean) return encode_not_finite(block, kBytes);
    const float scale = mean < kLeastScale ? 0 : mean;
    store_scale(block.code, scale);
    quantise(block.code + sizeof scale, block.lost, scale);
  }

  // Calls visit(at, values) for vectors of numbers, `at` bytes from the first float.
  template <typename Visit>
  static void for_each(const std::byte* code, Visit visit) {
    const float scale = load_scale(code);
    Words words[kVectors];
    __builtin_memcpy(words, code + sizeof scale, sizeof words);
    for (std::size_t row = 0; row < kRows; ++row)
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kVectors; ++i)
        visit(row * kRowBytes + i * kVectorBytes,
              with_sign(scale, words[i] << static_cast<int>(kRows - 1 - row) & kSign));
  }

 private:
  // needs: a scale of at least 0, or NaN
  static Floats with_sign(float scale, Words sign) {
    return (Floats)(sign | (Words)(Floats{} + scale));
  }

  // The magnitudes of each word's numbers are added up first, whatever the width of vectors, then
  // those of words 16 apart, 8 apart and so on: all instruction sets add in one order.
  using Sums = Floats[kVectors];
  static float total(const Sums& of_words) {
    float sums[kRowBytes / sizeof(float)];
    __builtin_memcpy(sums, of_words, sizeof sums);
#pragma GCC unroll 5
    for (std::size_t apart = 16; apart > 0; apart /= 2)
#pragma GCC unroll 16
      for (std::size_t word = 0; word < apart; ++word) sums[word] += sums[word + apart];
    return sums[0];
  }

  // The numbers to code, and the sum of their magnitudes.
  template <bool kCarried>
  static float gather(std::byte* to, const std::byte* from, const std::byte* carried) {
    Sums sums = {};
    for (std::size_t row = 0; row < kBlockBytes; row += kRowBytes)
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kVectors; ++i) {
        const std::size_t at = row + i * kVectorBytes;
        const Floats x = load_sum<kCarried>(from + at, carried + at);
        store_vector(to + at, x);
        sums[i] += magnitude_of(x);
      }
    return total(sums);
  }

  // Where the sum is beyond the range of floats; NaN where a number is infinite or NaN.
  [[gnu::cold]] static float mean_of_huge(const std::byte* numbers, float count) {
    constexpr float kSmall = 0.5f / kCodeBlock;
    Sums sums = {};
    for (std::size_t at = 0; at < kBlockBytes; at += kVectorBytes)
      sums[at / kVectorBytes % kVectors] +=
          magnitude_of(load_vector<Floats>(numbers + at)) * kSmall;
    const float small = total(sums);
    if (!(small < __builtin_inff())) return __builtin_nanf("");
    const float mean = small / count / kSmall;
    return mean < __FLT_MAX__ ? mean : __FLT_MAX__;  // rounded up to infinity
  }

  // The numbers at `lost` become their signs, and what these lose of them. Signs are put together
  // four at a time, at the top of words, before which those that are there move down.
  static void quantise(std::byte* words, std::byte* lost, float scale) {
    Words signs[kVectors] = {};
    for (std::size_t rows = 0; rows < kBlockBytes; rows += 4 * kRowBytes) {
      Words four[kVectors] = {};
#pragma GCC unroll 4
      for (std::size_t row = 0; row < 4; ++row)
#pragma GCC unroll 8
        for (std::size_t i = 0; i < kVectors; ++i) {
          std::byte* at = lost + rows + row * kRowBytes + i * kVectorBytes;
          const Floats x = load_vector<Floats>(at);
          const Words sign = (Words)x & kSign;
          store_vector(at, x - with_sign(scale, sign));
          four[i] += sign >> (3 - row);
        }
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kVectors; ++i) signs[i] = four[i] + (signs[i] >> 4);
    }
    __builtin_memcpy(words, signs, sizeof signs);
  }
};

}  // namespace
}  // namespace asup::kernels
