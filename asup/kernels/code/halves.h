// bf16 and f16: every number rounded by itself (code.h).
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/code/block.h"

namespace asup::kernels {
namespace {

// What a code that says `b` loses of `a`: nothing where it says infinity or NaN.
struct Lost {
  template <typename T>
  static Floats apply(Floats a, Floats b) {
    const Words lost = (Words)(a - b);
    return (Floats)(lost & (Words)((lost & kExponent) != kExponent));
  }
};

// `Half` is F16 or Bf16.
template <typename Half>
class HalfCode {
  static constexpr std::size_t kStep = Half::kLanes;

 public:
  using Exact = typename Half::Exact;
  static constexpr std::size_t kBytes = kCodeBlock * Half::kSize;

  static constexpr std::size_t coded_bytes(std::size_t count) { return count * Half::kSize; }

  static void encode(const Block& block) {
    if (block.carried != nullptr)
      encode_sums<true>(block);
    else
      encode_sums<false>(block);
  }

  // Calls visit(at, values) for vectors of numbers, `at` bytes from the first float.
  template <typename Visit>
  static void for_each(const std::byte* code, Visit visit) {
    for (std::size_t i = 0; i < kCodeBlock; i += kStep)
      visit(i * sizeof(float), Half::load(code + i * Half::kSize));
  }

 private:
  template <bool kCarried>
  static void encode_sums(const Block& block) {
    for (std::size_t i = 0; i < kCodeBlock; i += kStep) {
      const std::size_t at = i * sizeof(float);
      auto x = Exact::load(block.from + at);
      if constexpr (kCarried) x = Exact::template combine<Sum>(x, Exact::load(block.carried + at));
      std::byte* code = block.code + i * Half::kSize;
      Half::store(code, x);
      Exact::store(block.lost + at, Exact::template combine<Lost>(x, Half::load(code)));
    }
  }
};

}  // namespace
}  // namespace asup::kernels
