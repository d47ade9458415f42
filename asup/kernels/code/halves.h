// bf16 and f16: every number rounded by itself (code.h).
// Pure; safe from any thread on memory of its own.
#pragma once

#include <utility>

#include "asup/kernels/code/block.h"

namespace asup::kernels {
namespace {

// Numbers in their order, and the same of their codes.
struct TwoVectors {
  Floats first, second;
};

template <std::size_t... I>
inline Vector<std::uint16_t> upper_halves(Words a, Words b, std::index_sequence<I...>) {
  using Shorts = Vector<std::uint16_t>;
  return __builtin_shufflevector((Shorts)a, (Shorts)b, (2 * I + 1)...);
}

// Writes the code of x; what it says.
inline TwoVectors store_code(Bf16, std::byte* code, TwoVectors x) {
  const Words first = round_to_bf16(x.first), second = round_to_bf16(x.second);
  store_vector(code, upper_halves(first, second, std::make_index_sequence<2 * kFloats>()));
  return {(Floats)(first & 0xffff0000), (Floats)(second & 0xffff0000)};
}

inline TwoVectors store_code(F16, std::byte* code, TwoVectors x) {
  const Halves first = narrow_f16(x.first), second = narrow_f16(x.second);
  store_vector(code, first);
  store_vector(code + sizeof first, second);
  return {widen_f16(first), widen_f16(second)};
}

// `Half` is F16 or Bf16.
template <typename Half>
class HalfCode {
 public:
  using Exact = typename Half::Exact;
  static constexpr std::size_t kBytes = kCodeBlock * Half::kSize;

  static constexpr std::size_t coded_bytes(std::size_t count) { return count * Half::kSize; }

  static void encode(const Block& block) {
    const bool finite = block.carried != nullptr
                            ? round<true>(block.code, block.lost, block.from, block.carried)
                            : round<false>(block.code, block.lost, block.from, nullptr);
    if (!finite) lose_nothing_of_not_finite(block.lost);
  }

  // Calls visit(at, values) for vectors of numbers, `at` bytes from the first float.
  template <typename Visit>
  static void for_each(const std::byte* code, Visit visit) {
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kCodeBlock; i += Half::kLanes)
      visit(i * sizeof(float), Half::load(code + i * Half::kSize));
  }

 private:
  // False where the code says infinity or NaN: then it loses infinity or NaN, and so does the sum
  // of all that is lost. That the sum itself may overflow does no harm.
  template <bool kCarried>
  static bool round(std::byte* code, std::byte* lost, const std::byte* from,
                    const std::byte* carried) {
    TwoVectors sum = {};
#pragma GCC unroll 2
    for (std::size_t at = 0; at < kBlockBytes; at += 2 * kVectorBytes) {
      const std::size_t next = at + kVectorBytes;
      const TwoVectors x = {load_sum<kCarried>(from + at, carried + at),
                            load_sum<kCarried>(from + next, carried + next)};
      const TwoVectors says = store_code(Half(), code + at / 2, x);
      const TwoVectors less = {x.first - says.first, x.second - says.second};
      store_vector(lost + at, less.first);
      store_vector(lost + next, less.second);
      sum.first += less.first;
      sum.second += less.second;
    }
    const Words not_finite = ((Words)sum.first & kExponent) == kExponent;
    const Words nor_these = ((Words)sum.second & kExponent) == kExponent;
    std::uint32_t any = 0;
    for (std::size_t lane = 0; lane < kFloats; ++lane) any |= (not_finite | nor_these)[lane];
    return any == 0;
  }

  [[gnu::cold]] static void lose_nothing_of_not_finite(std::byte* lost) {
    for (std::size_t at = 0; at < kBlockBytes; at += kVectorBytes) {
      const Words bits = load_vector<Words>(lost + at);
      store_vector(lost + at, bits & (Words)((bits & kExponent) != kExponent));
    }
  }
};

}  // namespace
}  // namespace asup::kernels
