// Vectors of the width that the instruction set of this compilation has, as GCC's vector extension.
//
// Everything in isa/ except table.h, in code/ and in update/ is compiled once for each instruction
// set, so it all lives in an unnamed namespace and calls no inline function of another header: were
// a shared inline function emitted here with wide instructions, the linker might keep that copy for
// everybody. Values only; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace asup::kernels {
namespace {

#if defined(__AVX512BW__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif

template <typename T, std::size_t kCount>
struct VectorOf {
  typedef T type __attribute__((vector_size(kCount * sizeof(T))));
};

template <typename T, std::size_t kCount = kVectorBytes / sizeof(T)>
using Vector = typename VectorOf<T, kCount>::type;

// Floats in one vector; a half-precision element takes part as a float.
constexpr std::size_t kFloats = kVectorBytes / sizeof(float);
using Floats = Vector<float>;
using Words = Vector<std::uint32_t>;
using Ints = Vector<std::int32_t>;
using Halves = Vector<std::uint16_t, kFloats>;  // f16 as they lie in memory

// Memory need not be aligned.
template <typename V>
inline V load_vector(const std::byte* from) {
  V vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename V>
inline void store_vector(std::byte* to, V vector) {
  __builtin_memcpy(to, &vector, sizeof vector);
}

}  // namespace
}  // namespace asup::kernels
