// Workers that average in pairs, as threads of a test or as processes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "asup/base/error.h"
#include "asup/gossip/exchanger.h"

namespace asup::gossip::testing {

using Model = std::vector<float>;

// Time for what must come sooner or later, however busy the machine is.
constexpr Seconds kLimit{120};

template <typename Done>
void wait_until(const Done& done, const char* what) {
  const Deadline deadline = after(kLimit);
  while (!done()) {
    check(Clock::now() < deadline, "this did not come: {}", what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline ExchangerOptions options_of(Graph graph, std::uint64_t seed = 1) {
  return {.graph = std::move(graph), .seed = seed, .patience = kLimit, .chunk = 64};
}

// The first seed with which rank `rank` asks `partner` first.
inline std::uint64_t seed_for(const Graph& graph, int rank, int partner) {
  for (std::uint64_t seed = 0;; ++seed)
    if (Partners(graph, rank, seed).next().back() == partner) return seed;
}

}  // namespace asup::gossip::testing
