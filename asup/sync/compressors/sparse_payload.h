// A few numbers of many, and their places, as bytes that travel: a count for each block of 4,096
// places, the numbers, and the place of each within its block in 12 bits. Numbers are bf16, or two
// bits each: a sign, and one of two magnitudes, the means of the block's smaller and larger ones.
// Pure; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace asup::sync {

enum class SparseNumbers { bf16, two_bits };

// Of `most` numbers or fewer, of so many places.
std::size_t payload_bytes(std::size_t places, std::size_t most, SparseNumbers as);

// Takes what travels from the numbers: what is left is what the payload does not say of them, and
// zero of what is infinite or no number. needs: `chosen` ascends, below `places`; `to` has
// payload_bytes() of chosen.size(), or more
void pack(float* numbers, std::size_t places, std::span<const std::uint32_t> chosen,
          std::span<std::byte> to, SparseNumbers as);

// Adds `factor` times each number to its place. Throws Error where the bytes are no payload of so
// many places; what was added by then is nothing to use.
void add_unpacked(float* numbers, std::size_t places, std::span<const std::byte> from, float factor,
                  SparseNumbers as);

}  // namespace asup::sync
