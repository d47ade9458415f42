// The loops and the memory of bench/limit.cc. Compiled for the machine at hand: the 64-byte vector
// below becomes one, two or four of its registers.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace limit {

constexpr int kMostRanks = 64;
constexpr std::size_t kLineFloats = 16;  // of a cache line

using Line = float __attribute__((vector_size(kLineFloats * sizeof(float))));

inline Line load(const float* from) {
  Line line;
  std::memcpy(&line, from, sizeof line);
  return line;
}

// Non-temporal where asked for: around the caches, if the processor has such a store.
template <bool kStream>
inline void store(float* to, Line line) {
  if constexpr (!kStream) {
    std::memcpy(to, &line, sizeof line);
  } else {
#if defined(__AVX512F__)
    _mm512_stream_ps(to, line);
#elif defined(__x86_64__)
    __m128 quarters[4];
    std::memcpy(quarters, &line, sizeof line);
    for (int i = 0; i < 4; ++i) _mm_stream_ps(to + 4 * i, quarters[i]);
#elif defined(__aarch64__)
    using Quarter = float __attribute__((vector_size(16)));
    Quarter quarters[4];
    std::memcpy(quarters, &line, sizeof line);
    asm volatile(
        "stnp %q1, %q2, [%0]\n"
        "stnp %q3, %q4, [%0, #32]"
        :
        : "r"(to), "w"(quarters[0]), "w"(quarters[1]), "w"(quarters[2]), "w"(quarters[3])
        : "memory");
#else
    std::memcpy(to, &line, sizeof line);
#endif
  }
}

// Streaming stores keep no order with the flag that announces them.
inline void drain_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// to[j][i] = from[0][i] + from[1][i] + ... for all j. The counts are constants where the compiler
// shall unroll.
template <bool kStream>
inline void reduce_lines(const float* const* from, int sources, float* const* to, int targets,
                         std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; i += kLineFloats) {
    Line sum = load(from[0] + i);
    for (int k = 1; k < sources; ++k) sum += load(from[k] + i);
    for (int j = 0; j < targets; ++j) store<kStream>(to[j] + i, sum);
  }
}

template <bool kStream>
inline void reduce(const float* const* from, int sources, float* const* to, int targets,
                   std::size_t begin, std::size_t end) {
  const auto is = [&](int s, int t) { return sources == s && targets == t; };
  if (is(2, 1)) return reduce_lines<kStream>(from, 2, to, 1, begin, end);
  if (is(2, 2)) return reduce_lines<kStream>(from, 2, to, 2, begin, end);
  if (is(4, 4)) return reduce_lines<kStream>(from, 4, to, 4, begin, end);
  if (is(8, 8)) return reduce_lines<kStream>(from, 8, to, 8, begin, end);
  reduce_lines<kStream>(from, sources, to, targets, begin, end);
}

// Ends the process where there is no memory for it: the parent then ends the others.
inline void* map_memory(std::size_t bytes, int sharing) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) return memory;
  std::perror("bench_limit: no memory; fewer ranks or smaller sizes may fit");
  std::exit(1);
}

// A rank tells the others how far it is by a number in a line of its own: to pass costs each rank
// one line from each other.
struct alignas(64) Flag {
  std::atomic<int> steps{0};
  std::atomic<int> sleepers{0};  // who wait for the next step, asleep

  void set(int to) {
    steps = to;
    if (sleepers > 0) syscall(SYS_futex, &steps, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  // Until it is no longer at `from`.
  void sleep(int from) {
    ++sleepers;
    syscall(SYS_futex, &steps, FUTEX_WAIT, from, nullptr, nullptr, 0);
    --sleepers;
  }
};

class Barrier {
 public:
  Barrier(Flag* flags, int rank, int ranks) : flags_(flags), rank_(rank), ranks_(ranks) {
    cpu_set_t cores;
    const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
    spins_ = known && CPU_COUNT(&cores) >= ranks ? kSpins : 0;
  }

  void pass() {
    flags_[rank_].set(++steps_);
    for (int other = 0; other < ranks_; ++other) {
      int now = 0;
      for (int waited = 0; (now = flags_[other].steps) < steps_; ++waited)
        if (waited < spins_)
          pause();
        else if (waited < spins_ + kYields)
          sched_yield();
        else
          flags_[other].sleep(now);
    }
  }

 private:
  static constexpr int kSpins = 500;   // some 20 us
  static constexpr int kYields = 100;  // then it sleeps: its peer's core is another process's

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  Flag* flags_;
  int rank_, ranks_;
  int spins_ = 0;  // before it yields: none where ranks outnumber cores
  int steps_ = 0;
};

}  // namespace limit
