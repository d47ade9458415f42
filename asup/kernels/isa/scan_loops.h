// Sums and counts over rows of floats. Element i always goes to lane i % 16, whatever the width of
// vectors, so that all instruction sets add up in the same order.
// Pure; safe from any thread.
#pragma once

#include "asup/kernels/isa/gradient_loops.h"

namespace asup::kernels {
namespace {

// In doubles, which hold the square of a float exactly.
using Doubles = Vector<double>;
using Narrow = Vector<float, kVectorBytes / sizeof(double)>;
struct LanesOfSquares {
  Doubles of_lane[kLineBytes / sizeof(Narrow)] = {};
};

// Passed by value, so that the lanes stay in registers: memory that is read could be theirs.
inline LanesOfSquares add_squares(LanesOfSquares lanes, const float* data, std::size_t count) {
  for_each_line<0, 1>(nullptr, &data, count,
                      [&lanes](std::byte* const*, const std::byte* const* read) {
                        const std::byte* at = read[0];
                        for (Doubles& lane : lanes.of_lane) {
                          const auto x = __builtin_convertvector(load_vector<Narrow>(at), Doubles);
                          lane += x * x;
                          at += sizeof(Narrow);
                        }
                      });
  return lanes;
}

inline double total(const LanesOfSquares& lanes) {
  double values[kLineFloats];
  __builtin_memcpy(values, &lanes, sizeof values);
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

double sum_of_squares(const float* data, std::size_t count) {
  LanesOfSquares lanes;
  for_each_float_tile(0, count, [&](std::size_t begin, std::size_t size) {
    lanes = add_squares(lanes, data + begin, size);
  });
  return total(lanes);
}

void sums_of_squares(const float* parameters, const GradientSource* sources,
                     std::size_t source_count, std::size_t count, SquareSums& sums) {
  LanesOfSquares of_parameters, of_gradient;
  alignas(kLineBytes) float tile[kTileFloats];
  for_each_float_tile(0, count, [&](std::size_t begin, std::size_t size) {
    of_parameters = add_squares(of_parameters, parameters + begin, size);
    const float* gradient = gradient_tile(tile, sources, source_count, parameters, begin, size);
    of_gradient = add_squares(of_gradient, gradient, size);
  });
  sums = {total(of_parameters), total(of_gradient)};
}

// Magnitudes are in the order of their bits, those of NaN above all others.
float largest_magnitude(const float* data, std::size_t count) {
  using Magnitudes = Vector<std::int32_t>;
  Magnitudes largest = {};
  for_each_line<0, 1>(nullptr, &data, count,
                      [&largest](std::byte* const*, const std::byte* const* read) {
                        for (std::size_t at = 0; at < kLineBytes; at += kVectorBytes) {
                          const auto bits = load_vector<Magnitudes>(read[0] + at) & 0x7fffffff;
                          largest = bits > largest ? bits : largest;
                        }
                      });
  std::int32_t of_all = 0;
  for (std::size_t lane = 0; lane < kFloats; ++lane)
    of_all = largest[lane] > of_all ? largest[lane] : of_all;
  return __builtin_bit_cast(float, of_all);
}

std::size_t count_not_finite(const float* data, std::size_t count) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN
  std::size_t total = 0;
  for_each_float_tile(0, count, [&](std::size_t begin, std::size_t size) {
    const float* at_tile = data + begin;
    Words found = {};
    for_each_line<0, 1>(nullptr, &at_tile, size,
                        [&found](std::byte* const*, const std::byte* const* read) {
                          for (std::size_t at = 0; at < kLineBytes; at += kVectorBytes) {
                            const Words bits = load_vector<Words>(read[0] + at);
                            found -= (Words)((bits & kExponent) == kExponent);
                          }
                        });
    for (std::size_t lane = 0; lane < kFloats; ++lane) total += found[lane];
  });
  return total;
}

}  // namespace
}  // namespace asup::kernels
