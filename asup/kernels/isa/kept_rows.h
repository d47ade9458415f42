// Rows of floats that are kept from step to step: read where they were, written where they go.
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/isa/vectors.h"
#include "asup/kernels/kept.h"

namespace asup::kernels {
namespace {

// So many numbers are out of the caches before they are needed again: they are written past them,
// which spares the memory a read of what is overwritten.
constexpr std::size_t kStreamed = 1 << 20;

template <typename T>
inline T load_at(const float* from) {
  return load_vector<T>(reinterpret_cast<const std::byte*>(from));
}

template <typename T>
inline void store_at(float* to, T numbers) {
  store_vector(reinterpret_cast<std::byte*>(to), numbers);
}

// needs: `to` aligned to a vector
inline void stream_at(float* to, Floats numbers) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, (__m512)numbers);
#elif defined(__AVX__)
  _mm256_stream_ps(to, (__m256)numbers);
#elif defined(__x86_64__)
  _mm_stream_ps(to, (__m128)numbers);
#else
  store_at(to, numbers);
#endif
}

template <bool kStreams>
inline void keep_at(float* to, Floats numbers) {
  if constexpr (kStreams)
    stream_at(to, numbers);
  else
    store_at(to, numbers);
}

// After the last of them: these stores keep no order with later ones.
template <bool kStreams>
inline void end_stream() {
#if defined(__x86_64__)
  if constexpr (kStreams) _mm_sfence();
#endif
}

inline bool can_stream(Kept kept, std::size_t count) {
  return count >= kStreamed && kept.before != kept.after &&
         reinterpret_cast<std::uintptr_t>(kept.after) % kVectorBytes == 0;
}

}  // namespace
}  // namespace asup::kernels
