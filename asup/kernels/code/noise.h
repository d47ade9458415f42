// Numbers that look random and depend on a seed and a place alone: a hash of both, which takes no
// state from one to the next. J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011, doi:10.1145/2063384.2063405. Values only; safe from any thread.
#pragma once

#include "asup/kernels/code/block.h"

namespace asup::kernels {
namespace {

// G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014, doi:10.1145/2660193.2660195: the generator's last step, with D. Stafford's constants.
inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

inline Floats clamp(Floats x, float most) {
#if defined(__aarch64__)
  return (Floats)vmaxq_f32(vminq_f32((float32x4_t)x, vdupq_n_f32(most)), vdupq_n_f32(-most));
#else
  const Floats low = x < most ? x : Floats{} + most;
  return low > -most ? low : Floats{} - most;
#endif
}

// The noise of a block's numbers, in the order in which integers.h comes to them: word by word.
class BlockNoise {
 public:
  BlockNoise(std::uint64_t seed, std::uint64_t block) {
    const std::uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15) + block);
    key_ = static_cast<std::uint32_t>(key >> 32);
    for (std::size_t lane = 0; lane < kFloats; ++lane)
      place_[lane] = static_cast<std::uint32_t>(lane) + static_cast<std::uint32_t>(key);
  }

  // To a number of each of kRows rows of a block, then to at most `most`.
  template <std::size_t kRows>
  void add(Floats (&numbers)[kRows], float most) const {
    constexpr std::size_t kHalf = kRows / 2;
#pragma GCC unroll 4
    for (std::size_t row = 0; row < kHalf; ++row) {
      const Words bits = hash(place_ + static_cast<std::uint32_t>(row * (kCodeBlock / kRows)));
      numbers[row] = clamp(numbers[row] + to_noise(bits << 7), most);
      numbers[row + kHalf] = clamp(numbers[row + kHalf] + to_noise(bits >> 9), most);
    }
  }
  void advance() { place_ += static_cast<std::uint32_t>(kFloats); }

 private:
  // The lower halves are for the numbers at these places, the upper for those half a block later.
  // Two rounds of a hash of 32 bits: C. Wellons, "Prospecting for hash functions" (lowbias32), with
  // half of the key before each.
  Words hash(Words x) const {
    x = (x ^ x >> 16) * 0x7feb352d;
    x ^= key_;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
  }

  // Evenly spread between -1/2 and 1/2, neither of which it reaches, so that a number that needs no
  // rounding is not moved. A place of 2^-17 is the last that a float of up to 127 1/2 has: the sum
  // of both is not rounded again. The 16 bits go below the leading one of 1, and a one below them.
  static Floats to_noise(Words above_seven) {
    return (Floats)((above_seven & 0x007fff80) | 0x3f800040) - 1.5f;
  }

  std::uint32_t key_;
  Words place_ = {};
};

struct NoNoise {
  template <std::size_t kRows>
  void add(Floats (&)[kRows], float) const {}
  void advance() {}
};

}  // namespace
}  // namespace asup::kernels
