// Seeds. Pure; safe from any thread.
#pragma once

#include <cstdint>

namespace asup {

// Numbers that follow each other give seeds that have nothing to do with each other (SplitMix64).
constexpr std::uint64_t seed_of(std::uint64_t number) {
  number = (number + 1) * 0x9e3779b97f4a7c15;
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
  number = (number ^ number >> 27) * 0x94d049bb133111eb;
  return number ^ number >> 31;
}

}  // namespace asup
