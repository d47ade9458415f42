// Random numbers that are the same on every platform and compiler, for orders and augmentation that
// all ranks must agree on. (The standard library fixes its engines, but not its distributions or
// std::shuffle.)
//
// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
// https://doi.org/10.1145/2660193.2660195. A value: one per thread, or copy it.
#pragma once

#include <cstdint>

namespace asup::data {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // The stream of a coordinate, such as (seed, epoch, index): streams of different coordinates have
  // nothing to do with each other.
  template <typename... Rest>
  Random(std::uint64_t seed, std::uint64_t first, Rest... rest)
      : Random(Random(seed).next() ^ first, rest...) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Even over 0 … bound-1: values of the incomplete last stretch are drawn again. needs: bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t leftover = -bound % bound;  // 2^64 mod bound
    std::uint64_t value = next();
    while (value < leftover) value = next();
    return value % bound;
  }

  // Even over [0, 1), in steps of 2^-24: exact in a float.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }

 private:
  std::uint64_t state_;
};

}  // namespace asup::data
