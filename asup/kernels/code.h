// Floats as fewer bytes, and back.
//
// Memory need not be aligned. What an input gives depends on the input alone, not on where it lies
// or on the instruction set: bits are equal everywhere, so that machines of all kinds read each
// other's codes. Nothing is allocated. Safe from any thread on memory of its own.
//
// bf16 and f16 are as kernels::cast rounds them, one after the other. The others code blocks of
// kCodeBlock numbers: a float, the block's scale, then words of 32 bits, little endian. Numbers
// that lie side by side go to words side by side, so that vectors need not be taken apart:
//
//   int8     256 words; byte j of word k is q of number j · 256 + k, in two's complement.
//            x ≈ q · scale, scale = max |x| / 127, q from -127 to 127
//   int4     128 words; four bits j of word k are q + 8 of number j · 128 + k.
//            x ≈ q · scale, scale = max |x| / 7, q from -7 to 7
//   onebit   32 words; bit j of word k is the sign bit of number j · 32 + k.
//            x ≈ ± scale, scale = mean |x|. S. P. Karimireddy et al., "Error feedback fixes SignSGD
//            and other gradient compression schemes", ICML 2019, arXiv:1901.09847.
//
// A scale below 2^-100 is 0: all of the block is lost. NaN or infinity in a block makes all of it
// NaN, whereas in bf16 and f16 each number stands for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace asup::kernels {

enum class Code : std::uint8_t { none, bf16, f16, int8, int4, onebit };

// "none", "bf16", "fp16", "int8", "int4", "onebit".
std::string_view name_of(Code code);

// Numbers that are coded together: a range that is coded begins at a multiple of it.
inline constexpr std::size_t kCodeBlock = 1024;

// So many numbers, and those that fill up their last block.
inline constexpr std::size_t in_whole_code_blocks(std::size_t count) {
  return (count + kCodeBlock - 1) / kCodeBlock * kCodeBlock;
}

// bf16 and f16 take 2 bytes a number. The others take whole blocks: zeros fill up the last one.
// needs: a code, not none
std::size_t coded_bytes(Code code, std::size_t count);

// What goes into a code beside the numbers, and what comes out beside the code.
struct Encoding {
  // Added to the numbers before: what was lost the last time.
  const float* carried = nullptr;
  // Gets the number, with what was carried, less what its code says; 0 where the code says that it
  // is infinite or NaN, so that one bad step does not spoil all after it. May be `carried`.
  // Exact for bf16 and f16; else rounded to a float, which is exact for most numbers.
  float* lost = nullptr;
  // Gets what the code says. May be the source.
  float* decoded = nullptr;
  // A seed: int8 and int4 round up or down at random, so that the mean is right to 2^-16 of the
  // scale. None: to the nearest, as the other codes always do.
  std::optional<std::uint64_t> noise{};
  // The first number's place in the whole. A number's noise depends on the seed and its place
  // alone. needs: a multiple of kCodeBlock, where there is noise
  std::uint64_t first = 0;
};

// Writes coded_bytes(code, count) bytes. What is written must not overlap with anything else but as
// said above.
// needs: a code, not none
void encode(Code code, std::byte* to, const float* from, std::size_t count,
            const Encoding& how = {});

// needs: a code, not none; `to` apart from `from`
void decode(Code code, float* to, const std::byte* from, std::size_t count);

// to = ((own + carried) + codes[0] + codes[1] + …) · factor, from left to right. `carried` may be
// null, `codes` empty, and `to` may be `own` or `carried`.
// needs: a code, not none; `to` apart from the codes
void sum_codes(Code code, float* to, const float* own, const float* carried,
               std::span<const std::byte* const> codes, std::size_t count, float factor);

}  // namespace asup::kernels
