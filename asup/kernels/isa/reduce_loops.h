// Reductions of any number of sources, from left to right, rounded once.
// Pure; safe from any thread.
#pragma once

#include "asup/base/dtype.h"
#include "asup/kernels/isa/fold.h"

namespace asup::kernels {
namespace {

// Sources that one pass of the loop takes in beside the first: those of eight ranks in all. Each is
// a stream of its own to the prefetcher. Sums are what training does; the others keep the code
// small.
template <typename Op>
constexpr std::size_t kPass = std::is_same_v<Op, Sum> ? 7 : 1;

// Bytes of partial results between passes; they stay in the first-level cache.
constexpr std::size_t kTileBytes = 8192;

// dst = first op rest...
// needs: 1 to kMost sources in rest
template <std::size_t kMost, typename Op, typename First, typename Rest, typename Out,
          typename Scale, typename Also>
void fold_pass(std::byte* dst, const std::byte* first, const std::byte* const* rest,
               std::size_t rest_count, std::size_t count, Scale scale, Also also) {
  if (rest_count == kMost)
    fold<Op, First, Rest, Out, kMost>(dst, first, rest, count, scale, also);
  else if constexpr (kMost > 1)
    fold_pass<kMost - 1, Op, First, Rest, Out>(dst, first, rest, rest_count, count, scale, also);
}

// One tile of more sources than a pass takes. Partial results are not kept in dst: it may be a
// source still to be read, and they are wider than halves.
template <typename Op, typename Element, typename Scale, typename Also>
void fold_tile(std::byte* dst, const std::byte* const* sources, std::size_t source_count,
               std::size_t begin, std::size_t count, Scale scale, Also also) {
  using Partial = typename Element::Exact;
  constexpr std::size_t kMost = kPass<Op>;
  const std::size_t offset = begin * Element::kSize;
  alignas(kLineBytes) std::byte partial[kTileBytes];
  const std::byte* at[kMost] = {};
  const auto next = [&](std::size_t source) {
    for (std::size_t i = 0; i < kMost && source + i < source_count; ++i)
      at[i] = sources[source + i] + offset;
    return at;
  };
  fold<Op, Element, Element, Partial, kMost>(partial, sources[0] + offset, next(1), count,
                                             NoScale());
  std::size_t done = 1 + kMost;
  for (; source_count - done > kMost; done += kMost)
    fold<Op, Partial, Element, Partial, kMost>(partial, partial, next(done), count, NoScale());
  fold_pass<kMost, Op, Partial, Element, Element>(dst + offset, partial, next(done),
                                                  source_count - done, count, scale, NoCopies());
  if constexpr (std::is_same_v<Also, Copies>)
    for (std::size_t c = 0; c < also.count; ++c)
      __builtin_memcpy(also.to[c] + offset, dst + offset, count * Element::kSize);
}

// All copies get what dst gets.
template <typename Op, typename Element, typename Scale, typename Also>
void reduce_sources(std::byte* dst, const std::byte* const* sources, std::size_t source_count,
                    std::size_t count, Scale scale, Also also) {
  if (source_count == 1)
    return fold<Op, Element, Element, Element, 0>(dst, sources[0], nullptr, count, scale, also);
  if (source_count <= 1 + kPass<Op>)
    return fold_pass<kPass<Op>, Op, Element, Element, Element>(
        dst, sources[0], sources + 1, source_count - 1, count, scale, also);
  constexpr std::size_t kTile = kTileBytes / sizeof(typename Element::Value);
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t size = count - begin < kTile ? count - begin : kTile;
    fold_tile<Op, Element>(dst, sources, source_count, begin, size, scale, also);
  }
}

}  // namespace
}  // namespace asup::kernels
