// Arithmetic that the rules of this folder share. Like all of isa/ it is compiled once for each
// instruction set (see isa/vectors.h). Values only; safe from any thread.
#pragma once

#include <cstdint>

#include "asup/kernels/isa/operators.h"
#include "asup/kernels/update.h"

namespace asup::kernels {
namespace {

inline float as_float(double x) { return static_cast<float>(x); }

// 1 − decay^updates, by which an average that began at 0 is too small. By squaring: a library's pow
// may give other bits on another processor.
inline double missing_weight(double decay, std::uint64_t updates) {
  double power = 1;
  for (; updates > 0; updates /= 2) {
    if (updates % 2 == 1) power *= decay;
    decay *= decay;
  }
  return 1 - power;
}

// Rounded correctly, on every processor.
inline Floats square_root(Floats x) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif defined(__AVX2__)
  return (Floats)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
  return (Floats)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
  return (Floats)vsqrtq_f32((float32x4_t)x);
#else
  for (std::size_t lane = 0; lane < kFloats; ++lane) x[lane] = __builtin_sqrtf(x[lane]);
  return x;
#endif
}

}  // namespace
}  // namespace asup::kernels
