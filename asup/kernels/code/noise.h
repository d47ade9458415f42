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

class BlockNoise {
 public:
  BlockNoise(std::uint64_t seed, std::uint64_t block)
      : key_(mix(mix(seed + 0x9e3779b97f4a7c15) + block)) {
    for (std::size_t lane = 0; lane < kFloats; ++lane)
      lanes_[lane] = static_cast<std::uint32_t>(lane);
  }

  // 16 bits for each of the block's numbers from `first` on in the lower halves of words, and for
  // those half a block later in the upper halves. Two rounds of a hash of 32 bits: C. Wellons,
  // "Prospecting for hash functions" (lowbias32), with half of the key before each.
  Words at(std::size_t first) const {
    Words x = lanes_ + static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(key_);
    x = (x ^ x >> 16) * 0x7feb352d;
    x ^= static_cast<std::uint32_t>(key_ >> 32);
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
  }

 private:
  std::uint64_t key_;
  Words lanes_ = {};
};

// From words below 2^16: evenly spread between -1/2 and 1/2, neither of which it reaches, so that a
// number that needs no rounding is not moved. A place of 2^-17 is the last that a float of up to
// 127 1/2 has: the sum of both is not rounded again.
inline Floats to_noise(Words bits) {
  return __builtin_convertvector((Ints)bits, Floats) * 0x1p-16f - (0.5f - 0x1p-17f);
}

}  // namespace
}  // namespace asup::kernels
