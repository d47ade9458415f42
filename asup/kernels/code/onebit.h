// onebit: signs, and one magnitude for all of a block (code.h).
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/code/block.h"

namespace asup::kernels {
namespace {

class OneBitCode {
  static constexpr std::size_t kWords = kCodeBlock / 32;
  static constexpr std::size_t kRowBytes = kWords * sizeof(std::uint32_t);
  static constexpr std::size_t kVectors = kRowBytes / kVectorBytes;

 public:
  using Exact = F32;
  static constexpr std::size_t kBytes = sizeof(float) + kRowBytes;

  static constexpr std::size_t coded_bytes(std::size_t) { return kBytes; }

  static void encode(const Block& block) {
    alignas(kLineBytes) std::byte tile[kBlockBytes];
    const float half =
        block.carried != nullptr ? gather<true>(tile, block) : gather<false>(tile, block);
    if (!(half < __builtin_inff())) return encode_not_finite(block, kBytes);
    const float mean =
        half * (2 * static_cast<float>(kCodeBlock) / static_cast<float>(block.count));
    const float finite = mean < __FLT_MAX__ ? mean : __FLT_MAX__;
    const float scale = finite < kLeastScale ? 0 : finite;
    store_scale(block.code, scale);
    for (std::size_t at = 0; at < kBlockBytes; at += kVectorBytes) {
      const Floats x = load_vector<Floats>(tile + at);
      store_vector(block.lost + at, x - with_signs(scale, (Words)x));
    }
  }

  // Calls visit(at, values) for vectors of numbers, `at` bytes from the first float.
  template <typename Visit>
  static void for_each(const std::byte* code, Visit visit) {
    const float scale = load_scale(code);
    for (std::size_t column = 0; column < kRowBytes; column += kVectorBytes) {
      Words word = load_vector<Words>(code + sizeof scale + column);
      for (std::size_t row = 32; row-- > 0; word <<= 1)
        visit(row * kRowBytes + column, with_signs(scale, word));
    }
  }

 private:
  // needs: a scale of at least 0, or NaN
  static Floats with_signs(float scale, Words signs) {
    return (Floats)((Words)(Floats{} + scale) | (signs & kSign));
  }

  // The numbers to code; writes the signs. Half the sum of all magnitudes over kCodeBlock, which
  // cannot overflow, and is infinite or NaN if a number is. The magnitudes of a word's numbers are
  // added up first, whatever the width of vectors, so that all instruction sets add in one order.
  template <bool kCarried>
  static float gather(std::byte* tile, const Block& block) {
    Floats sums[kVectors] = {};
    Words signs[kVectors] = {};
    for (std::size_t row = 0; row < kBlockBytes; row += kRowBytes)
      for (std::size_t i = 0; i < kVectors; ++i) {
        const std::size_t at = row + i * kVectorBytes;
        const Floats x = load_sum<kCarried>(block, at);
        store_vector(tile + at, x);
        sums[i] += (Floats)((Words)x & ~kSign) * (0.5f / kCodeBlock);
        signs[i] = signs[i] >> 1 | ((Words)x & kSign);
      }
    __builtin_memcpy(block.code + sizeof(float), signs, sizeof signs);
    float half = 0;
    for (std::size_t word = 0; word < kWords; ++word) half += sums[word / kFloats][word % kFloats];
    return half;
  }
};

}  // namespace
}  // namespace asup::kernels
