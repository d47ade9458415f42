// A loop over several rows of floats side by side, a cache line at a time.
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/isa/fold.h"

namespace asup::kernels {
namespace {

constexpr std::size_t kLineFloats = kLineBytes / sizeof(float);

// Elements that pass by pass stay in the first-level cache: an Adam's four rows are 32 KB.
constexpr std::size_t kTileFloats = 2048;
static_assert(kTileFloats % kLineFloats == 0);

template <typename Float>
using BytesOf = std::conditional_t<std::is_const_v<Float>, const std::byte, std::byte>;

template <typename Float>
inline BytesOf<Float>* bytes_of(Float* floats) {
  return reinterpret_cast<BytesOf<Float>*>(floats);
}

// Calls visit(begin, size) for the tiles of elements [begin, end) one after the other.
template <typename Visit>
inline void for_each_float_tile(std::size_t begin, std::size_t end, Visit visit) {
  for (; begin < end; begin += kTileFloats) visit(begin, smaller(end - begin, kTileFloats));
}

// Calls line(changed, read) for every line: pointers to that line of each of the rows that it may
// change, and of those that it only reads. The last elements, fewer than a line's, go through a
// whole line that zeros fill up.
template <std::size_t kChanged, std::size_t kRead, typename Line>
inline void for_each_line(float* const* changed_rows, const float* const* read_rows,
                          std::size_t count, Line line) {
  std::byte* changed[kChanged + 1] = {};
  const std::byte* read[kRead + 1] = {};
  for (std::size_t row = 0; row < kChanged; ++row) changed[row] = bytes_of(changed_rows[row]);
  for (std::size_t row = 0; row < kRead; ++row) read[row] = bytes_of(read_rows[row]);
  for (; count >= kLineFloats; count -= kLineFloats) {
    for (std::size_t row = 0; row < kChanged; ++row) prefetch<kLineBytes>(changed[row]);
    for (std::size_t row = 0; row < kRead; ++row) prefetch<kLineBytes>(read[row]);
    line(changed, read);
    for (std::size_t row = 0; row < kChanged; ++row) changed[row] += kLineBytes;
    for (std::size_t row = 0; row < kRead; ++row) read[row] += kLineBytes;
  }
  if (count == 0) return;

  const std::size_t left = count * sizeof(float);
  alignas(kLineBytes) std::byte blocks[kChanged + kRead][kLineBytes] = {};
  std::byte* changed_blocks[kChanged + 1] = {};
  const std::byte* read_blocks[kRead + 1] = {};
  for (std::size_t row = 0; row < kChanged; ++row) {
    __builtin_memcpy(blocks[row], changed[row], left);
    changed_blocks[row] = blocks[row];
  }
  for (std::size_t row = 0; row < kRead; ++row) {
    __builtin_memcpy(blocks[kChanged + row], read[row], left);
    read_blocks[row] = blocks[kChanged + row];
  }
  line(changed_blocks, read_blocks);
  for (std::size_t row = 0; row < kChanged; ++row)
    __builtin_memcpy(changed[row], blocks[row], left);
}

}  // namespace
}  // namespace asup::kernels
