#include "asup/sync/compressors/sparse_payload.h"

#include <algorithm>
#include <bit>
#include <cmath>
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

// The upper half of a float, rounded to the nearest, ties to even.
using Bf16 = std::uint16_t;

Bf16 bf16_of(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  if (std::isnan(number)) return static_cast<Bf16>(bits >> 16 | 1);
  return static_cast<Bf16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float number_of(Bf16 upper) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16);
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

// The two magnitudes of a block: the means of those that are at most their mean, and of the others.
struct Magnitudes {
  float small = 0, large = 0;
};
static_assert(sizeof(Magnitudes) == 8);

Magnitudes magnitudes_of(const float* numbers, std::span<const std::uint32_t> chosen) {
  double sum = 0, small = 0;
  for (const std::uint32_t place : chosen) sum += std::abs(numbers[place]);
  const double mean = sum / static_cast<double>(chosen.size());
  std::size_t count = 0;
  for (const std::uint32_t place : chosen) {
    if (!(std::abs(numbers[place]) <= mean)) continue;
    small += std::abs(numbers[place]);
    ++count;
  }
  if (count == 0 || count == chosen.size())  // all alike, or none of them a number
    return {static_cast<float>(mean), static_cast<float>(mean)};
  return {static_cast<float>(small / static_cast<double>(count)),
          static_cast<float>((sum - small) / static_cast<double>(chosen.size() - count))};
}

// Two bits: the magnitude, and the sign above it.
constexpr unsigned kIsLarge = 1, kIsNegative = 2;

float number_of(unsigned bits, const Magnitudes& magnitudes) {
  const float magnitude = bits & kIsLarge ? magnitudes.large : magnitudes.small;
  return bits & kIsNegative ? -magnitude : magnitude;
}

unsigned bits_of(float number, const Magnitudes& magnitudes) {
  const float magnitude = std::abs(number);
  const bool is_large = magnitude - magnitudes.small > magnitudes.large - magnitude;
  return (is_large ? kIsLarge : 0) | (number < 0 ? kIsNegative : 0);
}

void write_bits(std::byte* numbers, std::size_t i, unsigned bits) {
  if (i % 4 == 0) numbers[i / 4] = std::byte{0};
  numbers[i / 4] |= static_cast<std::byte>(bits << 2 * (i % 4));
}

unsigned read_bits(const std::byte* numbers, std::size_t i) {
  return std::to_integer<unsigned>(numbers[i / 4]) >> 2 * (i % 4) & 3;
}

// Where the parts of a payload lie: offsets of the blocks' magnitudes, of the numbers, and of their
// places.
struct Parts {
  std::size_t blocks, magnitudes, numbers, places;

  Parts(std::size_t all_places, std::size_t count, SparseNumbers as)
      : blocks(blocks_of(all_places)),
        magnitudes(blocks * sizeof(Count)),
        numbers(magnitudes + (as == SparseNumbers::two_bits ? blocks * sizeof(Magnitudes) : 0)),
        places(numbers + (as == SparseNumbers::two_bits ? (count + 3) / 4 : count * sizeof(Bf16))) {
  }
};

}  // namespace

std::size_t payload_bytes(std::size_t places, std::size_t most, SparseNumbers as) {
  return Parts(places, most, as).places + (most + 1) / 2 * 3;
}

void pack(float* numbers, std::size_t places, std::span<const std::uint32_t> chosen,
          std::span<std::byte> to, SparseNumbers as) {
  const Parts parts(places, chosen.size(), as);
  check(to.size() >= payload_bytes(places, chosen.size(), as), "{} numbers do not fit in {} bytes",
        chosen.size(), to.size());
  std::size_t first = 0;
  for (std::size_t block = 0; block < parts.blocks; ++block) {
    std::size_t end = first;
    while (end < chosen.size() && chosen[end] / kBlock == block) ++end;
    const auto count = static_cast<Count>(end - first);
    std::memcpy(to.data() + block * sizeof count, &count, sizeof count);
    Magnitudes magnitudes;
    if (as == SparseNumbers::two_bits) {
      if (count > 0) magnitudes = magnitudes_of(numbers, chosen.subspan(first, count));
      std::memcpy(to.data() + parts.magnitudes + block * sizeof magnitudes, &magnitudes,
                  sizeof magnitudes);
    }
    for (std::size_t i = first; i < end; ++i) {
      float& number = numbers[chosen[i]];
      write_place(to.data() + parts.places, i, chosen[i] % kBlock);
      if (as == SparseNumbers::two_bits) {
        const unsigned bits = bits_of(number, magnitudes);
        write_bits(to.data() + parts.numbers, i, bits);
        number -= number_of(bits, magnitudes);
      } else {
        const Bf16 sent = bf16_of(number);
        std::memcpy(to.data() + parts.numbers + i * sizeof sent, &sent, sizeof sent);
        number = std::isfinite(number_of(sent)) ? number - number_of(sent) : 0;
      }
    }
    first = end;
  }
}

void add_unpacked(float* numbers, std::size_t places, std::span<const std::byte> from, float factor,
                  SparseNumbers as) {
  const std::size_t blocks = blocks_of(places);
  std::size_t total = 0;
  bool fits = from.size() >= blocks * sizeof(Count);
  for (std::size_t block = 0; fits && block < blocks; ++block) {
    const std::size_t count = read<Count>(from.data() + block * sizeof(Count));
    fits = count <= std::min(kBlock, places - block * kBlock);
    total += count;
  }
  check(fits && from.size() >= payload_bytes(places, total, as),
        "what came is no payload of sparse gradients: {} numbers of {} places in {} bytes", total,
        places, from.size());
  const Parts parts(places, total, as);
  const std::size_t in_last = places - (blocks - 1) * kBlock;
  std::size_t i = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t end = i + read<Count>(from.data() + block * sizeof(Count));
    const std::size_t size = block + 1 < blocks ? kBlock : in_last;
    Magnitudes magnitudes;
    if (as == SparseNumbers::two_bits)
      magnitudes = read<Magnitudes>(from.data() + parts.magnitudes + block * sizeof magnitudes);
    for (; i < end; ++i) {
      const std::size_t place = read_place(from.data() + parts.places, i);
      check(place < size, "what came is no payload of sparse gradients: place {} of {}", place,
            size);
      const float number =
          as == SparseNumbers::two_bits
              ? number_of(read_bits(from.data() + parts.numbers, i), magnitudes)
              : number_of(read<Bf16>(from.data() + parts.numbers + i * sizeof(Bf16)));
      numbers[block * kBlock + place] += factor * number;
    }
  }
}

}  // namespace asup::sync
