// int8 and int4: multiples of a scale that the block's largest magnitude sets (code.h).
// Pure; safe from any thread on memory of its own.
#pragma once

#include <utility>

#include "asup/kernels/code/noise.h"

namespace asup::kernels {
namespace {

template <int kBits>
class IntegerCode {
  static constexpr float kMost = (1 << (kBits - 1)) - 1;
  static constexpr std::size_t kRows = 32 / kBits;  // numbers of a word
  static constexpr std::size_t kRowBytes = kBlockBytes / kRows;
  using Rows = std::make_index_sequence<kRows>;

  // Beside it a float's last place is 1: adding it rounds to the nearest integer, ties to even, and
  // leaves the integer in the lowest bits. int4's are those of q + 8.
  static constexpr float kRound = 0x1.8p23f + (kBits == 4 ? 8 : 0);

 public:
  using Exact = F32;
  static constexpr std::size_t kBytes = sizeof(float) + kRowBytes;

  static constexpr std::size_t coded_bytes(std::size_t) { return kBytes; }

  static void encode(const Block& block) {
    const float largest = block.carried != nullptr
                              ? gather<true>(block.lost, block.from, block.carried)
                              : gather<false>(block.lost, block.from, nullptr);
    if (!(largest < __builtin_inff())) return encode_not_finite(block, kBytes);
    const float scale = largest / kMost;
    const Step step = scale < kLeastScale ? Step{0, 0} : Step{scale, kMost / largest};
    store_scale(block.code, step.scale);
    if (block.seed != nullptr)
      quantise(block, step, BlockNoise(*block.seed, block.number));
    else
      quantise(block, step, NoNoise());
  }

  // Calls visit(at, values) for vectors of numbers, `at` bytes from the first float, in their
  // order: memory that is written in order need not be read before.
  template <typename Visit>
  static void for_each(const std::byte* code, Visit visit) {
    const float scale = load_scale(code);
    [&]<std::size_t... kRow>(std::index_sequence<kRow...>) {
      (for_each_of_row<kRow>(code + sizeof scale, scale, visit), ...);
    }
    (Rows());
  }

 private:
  struct Step {
    float scale, inverse;
  };

  // The numbers to code, and the largest magnitude: they are in the order of their bits, infinity
  // and NaN above all others.
  template <bool kCarried>
  static float gather(std::byte* to, const std::byte* from, const std::byte* carried) {
    Ints largest[kLineVectors] = {};
    for (std::size_t line = 0; line < kBlockBytes; line += kLineBytes) {
      Floats x[kLineVectors];
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kLineVectors; ++i)
        x[i] =
            load_sum<kCarried>(from + line + i * kVectorBytes, carried + line + i * kVectorBytes);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kLineVectors; ++i) {
        store_vector(to + line + i * kVectorBytes, x[i]);
        const Ints magnitude = (Ints)magnitude_of(x[i]);
        largest[i] = magnitude > largest[i] ? magnitude : largest[i];
      }
    }
    std::int32_t of_all = 0;
    for (const Ints& some : largest)
      for (std::size_t lane = 0; lane < kFloats; ++lane)
        of_all = some[lane] > of_all ? some[lane] : of_all;
    return __builtin_bit_cast(float, of_all);
  }

  // The numbers at `lost` become code, and what it loses of them. Each step is taken for all
  // numbers of a word before the next, so that none waits for another.
  template <typename Noise>
  static void quantise(const Block& block, Step step, Noise noise) {
    std::byte *const lost = block.lost, *const code = block.code;
    const Block next = block_after(block);
    for (std::size_t at = 0; at < kRowBytes; at += kVectorBytes, noise.advance()) {
      Floats x[kRows], wanted[kRows], rounded[kRows];
      ask_for<kRows * kVectorBytes>(next, at * kRows);
#pragma GCC unroll 8
      for (std::size_t row = 0; row < kRows; ++row)
        x[row] = load_vector<Floats>(lost + row * kRowBytes + at);
#pragma GCC unroll 8
      for (std::size_t row = 0; row < kRows; ++row) wanted[row] = x[row] * step.inverse;
      noise.template add<kRows>(wanted, kMost);
#pragma GCC unroll 8
      for (std::size_t row = 0; row < kRows; ++row) rounded[row] = wanted[row] + kRound;
#pragma GCC unroll 8
      for (std::size_t row = 0; row < kRows; ++row) x[row] -= (rounded[row] - kRound) * step.scale;
#pragma GCC unroll 8
      for (std::size_t row = 0; row < kRows; ++row)
        store_vector(lost + row * kRowBytes + at, x[row]);
      store_vector(code + sizeof step.scale + at, to_words(rounded, Rows()));
    }
  }

  // The lowest bits of floats are those of q.
  template <std::size_t... kRow>
  static Words to_words(const Floats (&rounded)[kRows], std::index_sequence<kRow...>) {
    Words words = (Words)rounded[0];
    ((words = kRow == 0 ? words : put_above<kBits * kRow>(words, (Words)rounded[kRow])), ...);
    return words;
  }

  // The bits of q are taken where they lie in the lower half of a word, as those of a float whose
  // last place is 1, and the scale is divided by what they are too large: all of this is exact, and
  // takes few shifts and no conversions, which are slow.
  template <std::size_t kRow, typename Visit>
  static void for_each_of_row(const std::byte* words, float scale, Visit visit) {
    constexpr std::uint32_t kUnit = 1u << kRow % (kRows / 2) * kBits;
    constexpr std::uint32_t kMask = kUnit * ((1u << kBits) - 1);
    // Two's complement, with its sign bit turned, is q + 128; int4 has q + 8 as it is.
    constexpr std::uint32_t kTurned = 0x4b000000 ^ (kBits == 8 ? kUnit << 7 : 0);
    constexpr float kZero = 0x1p23f + static_cast<float>(kUnit << (kBits - 1));
    const float unit = scale / static_cast<float>(kUnit);
#pragma GCC unroll 4
    for (std::size_t at = 0; at < kRowBytes; at += kVectorBytes) {
      Words word = load_vector<Words>(words + at);
      if constexpr (kRow >= kRows / 2) word >>= 16;
      const Floats q = (Floats)((word & kMask) ^ kTurned) - kZero;
      visit(kRow * kRowBytes + at, q * unit);
    }
  }
};

}  // namespace
}  // namespace asup::kernels
