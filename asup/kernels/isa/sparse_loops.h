// Adding up gradients and finding the few large numbers among the sums (sparse.h), in one pass.
// Pure; safe from any thread.
#pragma once

#include "asup/kernels/isa/vectors.h"
#include "asup/kernels/sparse.h"

namespace asup::kernels {
namespace {

// Few tiles have a number that is found; the others are not looked at again.
constexpr std::size_t kSparseTile = 64;

inline std::int32_t magnitude(float number) {
  return __builtin_bit_cast(std::int32_t, number) & 0x7fffffff;
}

template <typename T>
inline T load_at(const float* from) {
  return load_vector<T>(reinterpret_cast<const std::byte*>(from));
}

template <typename T>
inline void store_at(float* to, T numbers) {
  store_vector(reinterpret_cast<std::byte*>(to), numbers);
}

// Whether a number of the tile is found.
template <bool kHasMomentum>
inline bool accumulate_tile(const Accumulation& how, float* gradient, Kept momentum, Kept sum,
                            std::int32_t least) {
  Ints found = {};
  for (std::size_t i = 0; i < kSparseTile; i += kFloats) {
    const Floats g = load_at<Floats>(gradient + i);
    Floats v = load_at<Floats>(sum.before + i);
    if constexpr (kHasMomentum) {
      const Floats u = how.carry * load_at<Floats>(momentum.before + i) + how.gain * g;
      store_at(momentum.after + i, u);
      v += how.through * u;
    }
    v += how.direct * g;
    store_at(sum.after + i, v);
    store_at(gradient + i, Floats{});
    found |= (Ints)(((Ints)v & 0x7fffffff) >= least);
  }
  std::uint64_t any = 0, words[kVectorBytes / 8];
  __builtin_memcpy(words, &found, sizeof words);
  for (const std::uint64_t word : words) any |= word;
  return any != 0;
}

template <bool kHasMomentum>
std::size_t accumulate_all(const Accumulation& how, float* gradient, Kept momentum, Kept sum,
                           std::size_t count, std::int32_t least, std::uint32_t* found,
                           std::size_t room) {
  std::size_t total = 0;
  const auto find = [&](std::size_t i) {
    if (magnitude(sum.after[i]) < least) return;
    if (total < room) found[total] = static_cast<std::uint32_t>(i);
    ++total;
  };
  std::size_t at = 0;
  for (; at + kSparseTile <= count; at += kSparseTile) {
    const Kept u = kHasMomentum ? Kept{momentum.before + at, momentum.after + at} : Kept{};
    if (!accumulate_tile<kHasMomentum>(how, gradient + at, u, {sum.before + at, sum.after + at},
                                       least))
      continue;
    for (std::size_t i = at; i < at + kSparseTile; ++i) find(i);
  }
  for (; at < count; ++at) {
    const float g = gradient[at];
    float v = sum.before[at];
    if constexpr (kHasMomentum) {
      const float u = how.carry * momentum.before[at] + how.gain * g;
      momentum.after[at] = u;
      v += how.through * u;
    }
    v += how.direct * g;
    sum.after[at] = v;
    gradient[at] = 0;
    find(at);
  }
  return total;
}

std::size_t accumulate(const Accumulation& how, float* gradient, Kept momentum, Kept sum,
                       std::size_t count, float least, std::uint32_t* found, std::size_t room) {
  const std::int32_t bits = magnitude(least);
  return momentum.after
             ? accumulate_all<true>(how, gradient, momentum, sum, count, bits, found, room)
             : accumulate_all<false>(how, gradient, momentum, sum, count, bits, found, room);
}

}  // namespace
}  // namespace asup::kernels
