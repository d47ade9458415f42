// A gradient from its sources, a tile at a time (GradientSource in update.h).
// Pure; safe from any thread.
#pragma once

#include "asup/kernels/isa/lines.h"
#include "asup/kernels/update.h"

namespace asup::kernels {
namespace {

// sum = before + weight · g, where `before` is the sum so far, or nothing at the first source.
template <bool kFirst, bool kCompensated>
[[gnu::noinline]] void add_source(float* sum, const GradientSource& source, const float* parameters,
                                  std::size_t begin, std::size_t count) {
  const float* const rows[] = {source.data + begin, kCompensated ? parameters + begin : nullptr,
                               kCompensated ? source.backup + begin : nullptr};
  const float weight = source.weight, lambda = source.lambda;
  for_each_line<1, kCompensated ? 3 : 1>(
      &sum, rows, count, [=](std::byte* const* changed, const std::byte* const* read) {
        for (std::size_t at = 0; at < kLineBytes; at += kVectorBytes) {
          Floats g = load_vector<Floats>(read[0] + at);
          if constexpr (kCompensated) {
            const Floats moved =
                load_vector<Floats>(read[1] + at) - load_vector<Floats>(read[2] + at);
            g += lambda * g * g * moved;
          }
          g *= weight;
          if constexpr (!kFirst) g = load_vector<Floats>(changed[0] + at) + g;
          store_vector(changed[0] + at, g);
        }
      });
}

// Where elements [begin, begin + count) of the gradient are: in its one source, if that is all of
// it, or else in `tile`, to which they are added up.
inline const float* gradient_tile(float* tile, const GradientSource* sources,
                                  std::size_t source_count, const float* parameters,
                                  std::size_t begin, std::size_t count) {
  if (source_count == 1 && sources[0].weight == 1 && sources[0].backup == nullptr)
    return sources[0].data + begin;
  for (std::size_t i = 0; i < source_count; ++i) {
    const bool compensated = sources[i].backup != nullptr;
    const auto add = i == 0 ? (compensated ? add_source<true, true> : add_source<true, false>)
                            : (compensated ? add_source<false, true> : add_source<false, false>);
    add(tile, sources[i], parameters, begin, count);
  }
  return tile;
}

}  // namespace
}  // namespace asup::kernels
