// f16 and bf16 to floats and back, a vector at a time: rounds to the nearest, ties to even;
// infinities and subnormal numbers are kept, NaN stays NaN. Values only; safe from any thread.
#pragma once

#include "asup/kernels/isa/vectors.h"

namespace asup::kernels {
namespace {

// bf16 is the upper half of a float. Neighbours in memory are computed with apart from each other,
// as the lower and the upper halves of words: that takes one instruction where keeping the order
// takes a permutation.
struct FloatPairs {
  Floats lower, upper;
};

inline FloatPairs widen_bf16(Words pairs) {
  return {(Floats)(pairs << 16), (Floats)(pairs & 0xffff0000)};
}

// A float whose upper half is the bf16; the lower is of no account. NaN becomes all ones.
// Not AVX512-BF16's instruction: it flushes subnormal numbers, and other machines would get other
// bits.
inline Words round_to_bf16(Floats floats) {
  const Words bits = (Words)floats;
  return (bits + 0x7fff + ((bits & 0x10000) >> 16)) | (Words)(floats != floats);
}

inline Words narrow_bf16(FloatPairs floats) {
  const Words lower = round_to_bf16(floats.lower) >> 16;
  return lower | (round_to_bf16(floats.upper) & 0xffff0000);
}

#if defined(__AVX512F__)

// With a full mask, which costs nothing: g++ 12 warns of the unmasked forms' undefined operand.
inline Floats widen_f16(Halves halves) {
  return (Floats)_mm512_maskz_cvtph_ps(0xffff, (__m256i)halves);
}
inline Halves narrow_f16(Floats floats) {
  return (Halves)_mm512_maskz_cvtps_ph(0xffff, (__m512)floats,
                                       _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#elif defined(__F16C__)

inline Floats widen_f16(Halves halves) { return (Floats)_mm256_cvtph_ps((__m128i)halves); }
inline Halves narrow_f16(Floats floats) {
  return (Halves)_mm256_cvtps_ph((__m256)floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#elif defined(__aarch64__)

inline Floats widen_f16(Halves halves) { return (Floats)vcvt_f32_f16((float16x4_t)halves); }
inline Halves narrow_f16(Floats floats) { return (Halves)vcvt_f16_f32((float32x4_t)floats); }

#else

// Compared as signed numbers, since SSE2 has only such; they are below 2^31.

// An f16's exponent is biased by 15, a float's by 127.
constexpr std::int32_t kRebias = (127 - 15) << 23;

inline Floats widen_f16(Halves halves) {
  const Ints half = __builtin_convertvector(halves, Ints);
  const Ints magnitude = half & 0x7fff;
  const Ints normal = (magnitude << 13) + kRebias;
  const Ints subnormal = (Ints)(__builtin_convertvector(magnitude, Floats) * 0x1p-24f);
  const Ints inf_or_nan = normal + kRebias;
  const Ints finite = magnitude < 0x400 ? subnormal : normal;
  return (Floats)((magnitude >= 0x7c00 ? inf_or_nan : finite) | (half & 0x8000) << 16);
}

inline Halves narrow_f16(Floats floats) {
  const Ints magnitude = (Ints)floats & 0x7fffffff;
  const Words bits = (Words)magnitude;
  const Ints normal = (Ints)((bits - kRebias + 0xfff + ((bits >> 13) & 1)) >> 13);
  // Beside 0.5 a float's last place is 2^-24, which is also a subnormal f16's: the addition rounds.
  const Ints subnormal = (Ints)((Floats)magnitude + 0.5f) - 0x3f000000;
  const Ints inf = Ints{} + 0x7c00;
  const Ints quiet_nan = Ints{} + 0x7e00;
  const Ints finite = magnitude < 0x38800000 ? subnormal : normal;  // below 2^-14
  const Ints number = magnitude >= 0x477ff000 ? inf : finite;       // from 65520 on
  const Ints half = magnitude > 0x7f800000 ? quiet_nan : number;
  return __builtin_convertvector((Words)half | (((Words)floats >> 16) & 0x8000), Halves);
}

#endif

}  // namespace
}  // namespace asup::kernels
