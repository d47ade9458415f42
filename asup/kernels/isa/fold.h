// The one hot loop: folds elements of several sources into a destination, a cache line at a time.
//
// Each element goes through the same operations wherever it lies: in the middle, in the last
// incomplete line, in this tile or the next. Memory need not be aligned; the destination may be one
// of the sources. Pure; safe from any thread on memory of its own.
#pragma once

#include <utility>

#include "asup/kernels/isa/elements.h"
#include "asup/kernels/isa/operators.h"

namespace asup::kernels {
namespace {

constexpr std::size_t kLineBytes = 64;

// How far ahead of their use lines are asked for. The processor's own prefetchers stop at every
// page and see no store coming: on a Xeon (Sapphire Rapids) asking makes bf16 and f16 1.8 times as
// fast in memory beyond the caches, f32 1.4 times; what lies in the first cache pays a quarter.
constexpr std::size_t kAhead = 2048;

template <std::size_t kBytes>
inline void prefetch(const std::byte* at) {
  for (std::size_t line = 0; line < kBytes; line += kLineBytes)
    __builtin_prefetch(at + kAhead + line);
}

constexpr std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }
constexpr std::size_t larger(std::size_t a, std::size_t b) { return a < b ? b : a; }

struct NoScale {};  // in the place of a factor of 1

// Further places for the result. They may be sources, too: an element is read everywhere before it
// is written anywhere.
struct Copies {
  std::byte* const* to = nullptr;
  std::size_t count = 0;
};
struct NoCopies {};

// dst and all copies = (first op rest[I] op ...) * scale, from left to right.
template <typename Op, typename First, typename Rest, typename Out, typename Scale, typename Also,
          std::size_t... I>
struct Fold {
  // Elements of a step: a line of the narrowest type.
  static constexpr std::size_t kStep =
      kLineBytes / smaller(First::kSize, smaller(Rest::kSize, Out::kSize));
  static_assert(kStep % First::kLanes == 0);

  static void step(std::byte* dst, const std::byte* first, const std::byte* const* rest,
                   std::size_t begin, Scale scale, Also also) {
#pragma GCC unroll 4
    for (std::size_t i = begin; i < begin + kStep; i += First::kLanes) {
      auto values = First::load(first + i * First::kSize);
      ((values = First::template combine<Op>(values, Rest::load(rest[I] + i * Rest::kSize))), ...);
      if constexpr (!std::is_same_v<Scale, NoScale>) values = First::scale(values, scale);
      Out::store(dst + i * Out::kSize, values);
      if constexpr (std::is_same_v<Also, Copies>)
        for (std::size_t c = 0; c < also.count; ++c)
          Out::store(also.to[c] + i * Out::kSize, values);
    }
  }

  static void steps(std::byte* dst, const std::byte* first, const std::byte* const* rest,
                    std::size_t count, Scale scale, Also also) {
    const std::byte* const source[] = {rest[I]..., nullptr};
    for (std::size_t i = 0; i < count; i += kStep) {
      prefetch<kStep * First::kSize>(first + i * First::kSize);
      (prefetch<kStep * Rest::kSize>(source[I] + i * Rest::kSize), ...);
      prefetch<kStep * Out::kSize>(dst + i * Out::kSize);
      step(dst, first, source, i, scale, also);
    }
  }

  // The last elements, from `begin` on and fewer than a step's, go through a whole step.
  static void tail(std::byte* dst, const std::byte* first, const std::byte* const* rest,
                   std::size_t begin, std::size_t count, Scale scale, Also also) {
    constexpr std::size_t kBytes = kStep * larger(First::kSize, Out::kSize);
    alignas(kLineBytes) std::byte blocks[sizeof...(I) + 2][kBytes] = {};
    const std::byte* const source[] = {blocks[I + 2]..., nullptr};
    __builtin_memcpy(blocks[1], first + begin * First::kSize, count * First::kSize);
    (__builtin_memcpy(blocks[I + 2], rest[I] + begin * Rest::kSize, count * Rest::kSize), ...);
    Fold<Op, First, Rest, Out, Scale, NoCopies, I...>::step(blocks[0], blocks[1], source, 0, scale,
                                                            NoCopies());
    __builtin_memcpy(dst + begin * Out::kSize, blocks[0], count * Out::kSize);
    if constexpr (std::is_same_v<Also, Copies>)
      for (std::size_t c = 0; c < also.count; ++c)
        __builtin_memcpy(also.to[c] + begin * Out::kSize, blocks[0], count * Out::kSize);
  }

  // Not inlined: it is called from several places.
  [[gnu::noinline]] static void run(std::byte* dst, const std::byte* first,
                                    const std::byte* const* rest, std::size_t count, Scale scale,
                                    Also also) {
    const std::size_t left = count % kStep;
    steps(dst, first, rest, count - left, scale, also);
    if (left > 0) tail(dst, first, rest, count - left, left, scale, also);
  }
};

// With kRest sources beside the first.
template <typename Op, typename First, typename Rest, typename Out, std::size_t kRest,
          typename Scale, typename Also = NoCopies>
void fold(std::byte* dst, const std::byte* first, const std::byte* const* rest, std::size_t count,
          Scale scale, Also also = {}) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    Fold<Op, First, Rest, Out, Scale, Also, I...>::run(dst, first, rest, count, scale, also);
  }
  (std::make_index_sequence<kRest>());
}

// The same elements as another type, where both have the same Values.
template <typename From, typename To>
void transfer(std::byte* dst, const std::byte* src, std::size_t count) {
  fold<Sum, From, From, To, 0>(dst, src, nullptr, count, NoScale());
}

}  // namespace
}  // namespace asup::kernels
