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
    alignas(kLineBytes) std::byte tile[kBlockBytes];
    const float largest =
        block.carried != nullptr ? gather<true>(tile, block) : gather<false>(tile, block);
    if (!(largest < __builtin_inff())) return encode_not_finite(block, kBytes);
    const float scale = largest / kMost;
    const Step step = scale < kLeastScale ? Step{0, 0} : Step{scale, kMost / largest};
    store_scale(block.code, step.scale);
    if (block.seed != nullptr)
      quantise<true>(block, tile, step);
    else
      quantise<false>(block, tile, step);
  }

  // Calls visit(at, values) for vectors of numbers, `at` bytes from the first float.
  template <typename Visit>
  static void for_each(const std::byte* code, Visit visit) {
    const float scale = load_scale(code);
    for (std::size_t at = 0; at < kRowBytes; at += kVectorBytes) {
      Words word = load_vector<Words>(code + sizeof scale + at);
      if constexpr (kBits == 4) word ^= 0x88888888;  // q + 8 becomes q's two's complement
      [&]<std::size_t... kRow>(std::index_sequence<kRow...>) {
        (visit(kRow * kRowBytes + at, integers<kRow>(word) * scale), ...);
      }
      (Rows());
    }
  }

 private:
  struct Step {
    float scale, inverse;
  };

  template <std::size_t kRow>
  static Floats integers(Words word) {
    const Ints highest = (Ints)(word << (32 - kBits * (kRow + 1)));
    return __builtin_convertvector(highest >> (32 - kBits), Floats);
  }

  // The numbers to code, and the largest magnitude: they are in the order of their bits, infinity
  // and NaN above all others.
  template <bool kCarried>
  static float gather(std::byte* tile, const Block& block) {
    Ints largest = {};
    for (std::size_t at = 0; at < kBlockBytes; at += kVectorBytes) {
      const Floats x = load_sum<kCarried>(block, at);
      store_vector(tile + at, x);
      const Ints magnitude = (Ints)x & 0x7fffffff;
      largest = magnitude > largest ? magnitude : largest;
    }
    std::int32_t of_all = 0;
    for (std::size_t lane = 0; lane < kFloats; ++lane)
      of_all = largest[lane] > of_all ? largest[lane] : of_all;
    return __builtin_bit_cast(float, of_all);
  }

  // Integers above the lowest bits of what it returns, which are q's.
  static Words quantise_at(std::byte* lost, Floats x, Floats wanted, Step step) {
    const Floats rounded = wanted + kRound;
    store_vector(lost, x - (rounded - kRound) * step.scale);
    return (Words)rounded;
  }

  template <bool kNoise>
  static void quantise(const Block& block, const std::byte* tile, Step step) {
    const BlockNoise noise(kNoise ? *block.seed : 0, block.number);
    for (std::size_t at = 0; at < kRowBytes; at += kVectorBytes) {
      Words random[kRows / 2] = {};
      Words word = {};
      const auto add_row = [&]<std::size_t kRow>(std::integral_constant<std::size_t, kRow>) {
        const std::size_t place = kRow * kRowBytes + at;
        const Floats x = load_vector<Floats>(tile + place);
        Floats wanted = x * step.inverse;
        if constexpr (kNoise) {
          constexpr bool kLower = kRow < kRows / 2;
          Words& bits = random[kRow % (kRows / 2)];
          if constexpr (kLower) bits = noise.at(place / sizeof(float));
          wanted += to_noise(kLower ? bits & 0xffff : bits >> 16);
          wanted = wanted < kMost ? wanted : Floats{} + kMost;
          wanted = wanted > -kMost ? wanted : Floats{} - kMost;
        }
        const Words q = quantise_at(block.lost + place, x, wanted, step);
        word = kRow == 0 ? q : put_above<kBits * kRow>(word, q);
      };
      [&]<std::size_t... kRow>(std::index_sequence<kRow...>) {
        (add_row(std::integral_constant<std::size_t, kRow>()), ...);
      }
      (Rows());
      store_vector(block.code + sizeof step.scale + at, word);
    }
  }
};

}  // namespace
}  // namespace asup::kernels
