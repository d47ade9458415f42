// Momenta that leave in place of gradients, and gradients that are clipped (momentum.h).
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/isa/kept_rows.h"
#include "asup/kernels/momentum.h"

namespace asup::kernels {
namespace {

// As vectors or as single numbers, which are rounded alike.
template <bool kNesterov, typename T>
inline T leaving(float m, T g, T u) {
  if constexpr (kNesterov) return m * u + g;
  return u;
}

template <bool kNesterov, bool kStreams>
void add_momentum_to_all(float m, float* gradient, Kept momentum, std::size_t count) {
  std::size_t at = 0;
  for (; at + kFloats <= count; at += kFloats) {
    const Floats g = load_at<Floats>(gradient + at);
    const Floats u = m * load_at<Floats>(momentum.before + at) + g;
    keep_at<kStreams>(momentum.after + at, u);
    store_at(gradient + at, leaving<kNesterov>(m, g, u));
  }
  end_stream<kStreams>();
  for (; at < count; ++at) {
    const float g = gradient[at], u = m * momentum.before[at] + g;
    momentum.after[at] = u;
    gradient[at] = leaving<kNesterov>(m, g, u);
  }
}

void add_momentum(LeavingMomentum kind, float m, float* gradient, Kept momentum,
                  std::size_t count) {
  const bool streams = can_stream(momentum, count);
  const auto all =
      kind == LeavingMomentum::nesterov
          ? (streams ? add_momentum_to_all<true, true> : add_momentum_to_all<true, false>)
          : (streams ? add_momentum_to_all<false, true> : add_momentum_to_all<false, false>);
  all(m, gradient, momentum, count);
}

void scale(float* numbers, float factor, std::size_t count) {
  std::size_t at = 0;
  for (; at + kFloats <= count; at += kFloats)
    store_at(numbers + at, factor * load_at<Floats>(numbers + at));
  for (; at < count; ++at) numbers[at] = factor * numbers[at];
}

}  // namespace
}  // namespace asup::kernels
