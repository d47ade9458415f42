// A few numbers of many, and their places, as bytes that travel: a count for each block of 4,096
// places, the numbers, and the place of each within its block in 12 bits. Pure; safe from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace asup::sync {

// Of `most` numbers or fewer, of so many places.
std::size_t payload_bytes(std::size_t places, std::size_t most);

// needs: `chosen` ascends, below `places`; `to` has payload_bytes(places, chosen.size()) or more
void pack(const float* numbers, std::size_t places, std::span<const std::uint32_t> chosen,
          std::span<std::byte> to);

// Adds `factor` times each number to its place. Throws Error where the bytes are no payload of so
// many places; what was added by then is nothing to use.
void add_unpacked(float* numbers, std::size_t places, std::span<const std::byte> from,
                  float factor);

}  // namespace asup::sync
