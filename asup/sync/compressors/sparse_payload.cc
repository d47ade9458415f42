#include "asup/sync/compressors/sparse_payload.h"

#include <algorithm>
#include <cstring>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

constexpr std::size_t kBlock = 4096;  // places
using Count = std::uint16_t;

std::size_t blocks_of(std::size_t places) { return (places + kBlock - 1) / kBlock; }

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Two places of 12 bits are three bytes.
void write_place(std::byte* places, std::size_t i, std::uint32_t place) {
  std::byte* at = places + i / 2 * 3;
  if (i % 2 == 0) {
    at[0] = static_cast<std::byte>(place);
    at[1] = static_cast<std::byte>(place >> 8);
  } else {
    at[1] |= static_cast<std::byte>(place << 4);
    at[2] = static_cast<std::byte>(place >> 4);
  }
}

std::uint32_t read_place(const std::byte* places, std::size_t i) {
  const std::byte* at = places + i / 2 * 3;
  const auto byte = [&](std::size_t k) { return std::to_integer<std::uint32_t>(at[k]); };
  return i % 2 == 0 ? (byte(0) | byte(1) << 8) & 0xfff : byte(1) >> 4 | byte(2) << 4;
}

// Where the parts of a payload lie.
struct Parts {
  std::size_t blocks, numbers, places;  // offset of the numbers, and of their places

  Parts(std::size_t all_places, std::size_t count)
      : blocks(blocks_of(all_places)),
        numbers(blocks * sizeof(Count)),
        places(numbers + count * sizeof(float)) {}
};

}  // namespace

std::size_t payload_bytes(std::size_t places, std::size_t most) {
  return Parts(places, most).places + (most + 1) / 2 * 3;
}

void pack(const float* numbers, std::size_t places, std::span<const std::uint32_t> chosen,
          std::span<std::byte> to) {
  const Parts parts(places, chosen.size());
  check(to.size() >= payload_bytes(places, chosen.size()), "{} numbers do not fit in {} bytes",
        chosen.size(), to.size());
  std::size_t i = 0;
  for (std::size_t block = 0; block < parts.blocks; ++block) {
    const std::size_t first = i;
    for (; i < chosen.size() && chosen[i] / kBlock == block; ++i) {
      std::memcpy(to.data() + parts.numbers + i * sizeof(float), numbers + chosen[i],
                  sizeof(float));
      write_place(to.data() + parts.places, i, chosen[i] % kBlock);
    }
    const auto count = static_cast<Count>(i - first);
    std::memcpy(to.data() + block * sizeof count, &count, sizeof count);
  }
}

void add_unpacked(float* numbers, std::size_t places, std::span<const std::byte> from,
                  float factor) {
  const std::size_t blocks = blocks_of(places);
  std::size_t total = 0;
  bool fits = from.size() >= blocks * sizeof(Count);
  for (std::size_t block = 0; fits && block < blocks; ++block) {
    const std::size_t count = read<Count>(from.data() + block * sizeof(Count));
    fits = count <= std::min(kBlock, places - block * kBlock);
    total += count;
  }
  check(fits && from.size() >= payload_bytes(places, total),
        "what came is no payload of sparse gradients: {} numbers of {} places in {} bytes", total,
        places, from.size());
  const Parts parts(places, total);
  const std::size_t in_last = places - (blocks - 1) * kBlock;
  std::size_t i = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t end = i + read<Count>(from.data() + block * sizeof(Count));
    const std::size_t size = block + 1 < blocks ? kBlock : in_last;
    for (; i < end; ++i) {
      const std::size_t place = read_place(from.data() + parts.places, i);
      check(place < size, "what came is no payload of sparse gradients: place {} of {}", place,
            size);
      numbers[block * kBlock + place] +=
          factor * read<float>(from.data() + parts.numbers + i * sizeof(float));
    }
  }
}

}  // namespace asup::sync
