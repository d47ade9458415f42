// A block on its way to a code, and what the codes of whole blocks share.
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/code.h"
#include "asup/kernels/isa/lines.h"

namespace asup::kernels {
namespace {

constexpr std::size_t kBlockBytes = kCodeBlock * sizeof(float);

// Vectors of a line: loops take a line of each row at a time, and have as many chains of operations
// that do not wait for each other.
constexpr std::size_t kLineVectors = kLineBytes / kVectorBytes;

// One block's part of encode(); contracts are in code.h.
struct Block {
  std::byte* code = nullptr;
  const std::byte* from = nullptr;
  const std::byte* carried = nullptr;   // or none
  std::byte* lost = nullptr;            // between two passes it holds the numbers to code
  std::size_t count = kCodeBlock;       // fewer: zeros follow, which are not part of a mean
  const std::uint64_t* seed = nullptr;  // or none: to the nearest
  std::uint64_t number = 0;             // of the block, in the whole
};

constexpr float kLeastScale = 0x1p-100f;
constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinite or NaN
constexpr std::uint32_t kSign = 0x80000000;

inline Floats magnitude_of(Floats x) {
#if defined(__aarch64__)
  return (Floats)vabsq_f32((float32x4_t)x);  // g++ does not see it in the bits, and copies them
#else
  return (Floats)((Words)x & ~kSign);
#endif
}

// Where the next block would be: it may lie behind the last.
inline Block block_after(const Block& block) {
  Block next = block;
  next.from += kBlockBytes;
  next.lost += kBlockBytes;
  return next;
}

// Asks for kBytes bytes of a block's numbers, from `at` on. Memory would be idle while the block
// before it, which lies in the first cache by now, becomes its code.
template <std::size_t kBytes>
inline void ask_for(const Block& block, std::size_t at) {
  for (std::size_t line = at; line < at + kBytes; line += kLineBytes) {
    __builtin_prefetch(block.from + line);
    __builtin_prefetch(block.lost + line);
  }
}

inline void store_scale(std::byte* code, float scale) {
  __builtin_memcpy(code, &scale, sizeof scale);
}

inline float load_scale(const std::byte* code) {
  float scale;
  __builtin_memcpy(&scale, code, sizeof scale);
  return scale;
}

template <bool kCarried>
inline Floats load_sum(const std::byte* from, const std::byte* carried) {
  const Floats x = load_vector<Floats>(from);
  if constexpr (kCarried)
    return x + load_vector<Floats>(carried);
  else
    return x;
}

// A block with a number that is infinite or NaN, as a code of `bytes` bytes.
inline void encode_not_finite(const Block& block, std::size_t bytes) {
  __builtin_memset(block.code, 0, bytes);
  store_scale(block.code, __builtin_nanf(""));
  __builtin_memset(block.lost, 0, kBlockBytes);
}

// The lowest kShift bits of one word and, above them, the other.
template <int kShift>
inline Words put_above(Words low, Words high) {
#if defined(__aarch64__)
  return (Words)vsliq_n_u32((uint32x4_t)low, (uint32x4_t)high, kShift);
#else
  return (low & ((1u << kShift) - 1)) | high << kShift;
#endif
}

}  // namespace
}  // namespace asup::kernels
