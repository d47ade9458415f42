// The passes over memory that all codes share, a block at a time.
//
// A coder, as code/ has them, has kBytes bytes of code for a whole block, encode() of one, and
// for_each() of the vectors that a code says, as Exact holds them.
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/code/halves.h"
#include "asup/kernels/code/integers.h"
#include "asup/kernels/code/onebit.h"

namespace asup::kernels {
namespace {

// Calls visit(coder) with the code's coder.
template <typename Visit>
inline void with_coder(Code code, Visit visit) {
  switch (code) {
    case Code::none:
      return;
    case Code::bf16:
      return visit(HalfCode<Bf16>());
    case Code::f16:
      return visit(HalfCode<F16>());
    case Code::int8:
      return visit(IntegerCode<8>());
    case Code::int4:
      return visit(IntegerCode<4>());
    case Code::onebit:
      return visit(OneBitCode());
  }
}

template <typename Float>
inline Float* offset(Float* floats, std::size_t by) {
  return floats == nullptr ? nullptr : floats + by;
}

template <typename Coder>
inline void ask_for_code(const std::byte* code) {
  for (std::size_t line = 0; line < Coder::kBytes; line += kLineBytes)
    __builtin_prefetch(code + line);
}

// to = what the code says.
template <typename Coder>
[[gnu::noinline]] void decode_block(std::byte* to, const std::byte* code) {
  Coder::for_each(code,
                  [to](std::size_t at, auto values) { Coder::Exact::store(to + at, values); });
}

// to = (sum + what the code says) · scale.
template <typename Coder, typename Scale>
[[gnu::noinline]] void add_block(std::byte* to, const std::byte* sum, const std::byte* code,
                                 Scale scale) {
  using Exact = typename Coder::Exact;
  Coder::for_each(code, [=](std::size_t at, auto values) {
    values = Exact::template combine<Sum>(Exact::load(sum + at), values);
    if constexpr (!std::is_same_v<Scale, NoScale>) values = Exact::scale(values, scale);
    Exact::store(to + at, values);
  });
}

// The first `count` numbers that a code says, fewer than a block's.
template <typename Coder>
void decode_part(std::byte* to, const std::byte* code, std::size_t count) {
  alignas(kLineBytes) std::byte whole[kBlockBytes];
  alignas(kLineBytes) std::byte padded[Coder::kBytes] = {};
  __builtin_memcpy(padded, code, Coder::coded_bytes(count));
  decode_block<Coder>(whole, padded);
  __builtin_memcpy(to, whole, count * sizeof(float));
}

// A block of fewer numbers goes through a whole one that zeros fill up.
template <typename Coder>
void encode_part(const Block& part) {
  alignas(kLineBytes) std::byte from[kBlockBytes] = {}, carried[kBlockBytes] = {};
  alignas(kLineBytes) std::byte lost[kBlockBytes], code[Coder::kBytes];
  const std::size_t bytes = part.count * sizeof(float);
  Block block = part;
  __builtin_memcpy(from, part.from, bytes);
  block.from = from;
  if (part.carried != nullptr) {
    __builtin_memcpy(carried, part.carried, bytes);
    block.carried = carried;
  }
  block.lost = lost;
  block.code = code;
  Coder::encode(block);
  __builtin_memcpy(part.lost, lost, bytes);
  __builtin_memcpy(part.code, code, Coder::coded_bytes(part.count));
}

// `seed` is how.noise's, or null.
void encode(Code code, std::byte* to, const float* from, std::size_t count, const Encoding& how,
            const std::uint64_t* seed) {
  with_coder(code, [&](auto coder) {
    using Coder = decltype(coder);
    alignas(kLineBytes) std::byte unwanted[kBlockBytes];
    for (std::size_t begin = 0; begin < count; begin += kCodeBlock, to += Coder::kBytes) {
      const Block block{.code = to,
                        .from = bytes_of(from + begin),
                        .carried = bytes_of(offset(how.carried, begin)),
                        .lost = how.lost != nullptr ? bytes_of(how.lost + begin) : unwanted,
                        .count = smaller(count - begin, kCodeBlock),
                        .seed = seed,
                        .number = (how.first + begin) / kCodeBlock};
      const bool whole = block.count == kCodeBlock;
      whole ? Coder::encode(block) : encode_part<Coder>(block);
      if (how.decoded == nullptr) continue;
      std::byte* decoded = bytes_of(how.decoded + begin);
      whole ? decode_block<Coder>(decoded, to) : decode_part<Coder>(decoded, to, block.count);
    }
  });
}

void decode(Code code, float* to, const std::byte* from, std::size_t count) {
  with_coder(code, [&](auto coder) {
    using Coder = decltype(coder);
    for (; count >= kCodeBlock; count -= kCodeBlock, to += kCodeBlock, from += Coder::kBytes)
      decode_block<Coder>(bytes_of(to), from);
    if (count > 0) decode_part<Coder>(bytes_of(to), from, count);
  });
}

// Adds up in a tile that stays in the first-level cache, code by code. `add(i, to, sums,
// scale)` writes the sums so far and what the i-th code says, times scale.
template <typename Add>
inline void sum_block(std::byte* to, const std::byte* own, const std::byte* carried,
                      std::size_t code_count, std::size_t size, float factor, Add add) {
  alignas(kLineBytes) std::byte tile[kBlockBytes];
  const std::byte* sums = own;
  if (carried != nullptr) {
    fold<Sum, F32, F32, F32, 1>(tile, own, &carried, size, NoScale());
    sums = tile;
  }
  for (std::size_t i = 0; i + 1 < code_count; ++i) {
    add(i, tile, sums, NoScale());
    sums = tile;
  }
  if (code_count > 0)
    add(code_count - 1, to, sums, factor);
  else
    fold<Sum, F32, F32, F32, 0>(to, sums, nullptr, size, factor);
}

void sum_codes(Code code, float* to, const float* own, const float* carried,
               const std::byte* const* codes, std::size_t code_count, std::size_t count,
               float factor) {
  with_coder(code, [&](auto coder) {
    using Coder = decltype(coder);
    for (std::size_t begin = 0; begin < count; begin += kCodeBlock) {
      const std::size_t size = smaller(count - begin, kCodeBlock);
      const std::size_t at = begin / kCodeBlock * Coder::kBytes;
      const auto add_whole = [&](std::size_t i, std::byte* out, const std::byte* sums, auto scale) {
        ask_for_code<Coder>(codes[i] + at + Coder::kBytes);
        add_block<Coder>(out, sums, codes[i] + at, scale);
      };
      const auto add_part = [&](std::size_t i, std::byte* out, const std::byte* sums, auto scale) {
        alignas(kLineBytes) std::byte values[kBlockBytes];
        decode_part<Coder>(values, codes[i] + at, size);
        const std::byte* const rest[] = {values};
        fold<Sum, F32, F32, F32, 1>(out, sums, rest, size, scale);
      };
      const auto sum = [&](auto add) {
        sum_block(bytes_of(to + begin), bytes_of(own + begin), bytes_of(offset(carried, begin)),
                  code_count, size, factor, add);
      };
      size == kCodeBlock ? sum(add_whole) : sum(add_part);
    }
  });
}

}  // namespace
}  // namespace asup::kernels
