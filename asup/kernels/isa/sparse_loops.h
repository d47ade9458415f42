// Adding up gradients and finding the few large numbers among the sums (sparse.h), in one pass.
// Pure; safe from any thread.
#pragma once

#include "asup/kernels/isa/kept_rows.h"

namespace asup::kernels {
namespace {

// Few tiles have a number that is found; the others are not looked at again.
constexpr std::size_t kSparseTile = 64;

inline std::int32_t magnitude(float number) {
  return __builtin_bit_cast(std::int32_t, number) & 0x7fffffff;
}

// Whether a number of the tile is found.
template <bool kHasMomentum, bool kStreams>
inline bool accumulate_tile(const Accumulation& how, float* gradient, Kept momentum, Kept sum,
                            std::int32_t least) {
  Ints found = {};
  for (std::size_t i = 0; i < kSparseTile; i += kFloats) {
    const Floats g = load_at<Floats>(gradient + i);
    Floats v = load_at<Floats>(sum.before + i);
    if constexpr (kHasMomentum) {
      const Floats u = how.carry * load_at<Floats>(momentum.before + i) + how.gain * g;
      keep_at<kStreams>(momentum.after + i, u);
      v += how.through * u;
    }
    v += how.direct * g;
    keep_at<kStreams>(sum.after + i, v);
    store_at(gradient + i, Floats{});
    found |= (Ints)(((Ints)v & 0x7fffffff) >= least);
  }
  std::uint64_t any = 0, words[kVectorBytes / 8];
  __builtin_memcpy(words, &found, sizeof words);
  for (const std::uint64_t word : words) any |= word;
  return any != 0;
}

template <bool kHasMomentum, bool kStreams>
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
    if (!accumulate_tile<kHasMomentum, kStreams>(how, gradient + at, u,
                                                 {sum.before + at, sum.after + at}, least))
      continue;
    for (std::size_t i = at; i < at + kSparseTile; ++i) find(i);
  }
  end_stream<kStreams>();
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
  const bool has_momentum = momentum.after != nullptr;
  const bool streams = can_stream(sum, count) && (!has_momentum || can_stream(momentum, count));
  const auto all = has_momentum
                       ? (streams ? accumulate_all<true, true> : accumulate_all<true, false>)
                       : (streams ? accumulate_all<false, true> : accumulate_all<false, false>);
  return all(how, gradient, momentum, sum, count, magnitude(least), found, room);
}

void add_where_not_zero(float* numbers, const float* few, float factor, std::size_t count) {
  std::size_t at = 0;
  for (; at + kSparseTile <= count; at += kSparseTile) {
    Ints any = {};
    for (std::size_t i = 0; i < kSparseTile; i += kFloats)
      any |= (Ints)load_at<Floats>(few + at + i);
    std::uint64_t words[kVectorBytes / 8], bits = 0;
    __builtin_memcpy(words, &any, sizeof words);
    for (const std::uint64_t word : words) bits |= word & 0x7fffffff7fffffff;
    if (bits == 0) continue;
    for (std::size_t i = at; i < at + kSparseTile; ++i) numbers[i] += factor * few[i];
  }
  for (; at < count; ++at) numbers[at] += factor * few[at];
}

}  // namespace
}  // namespace asup::kernels
