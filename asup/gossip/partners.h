// The order in which a worker asks its partners, anew for every exchange and at random, so that no
// two workers ask each other in step for ever. Values only; the same everywhere for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "asup/gossip/graph.h"

namespace asup::gossip {

class Partners {
 public:
  Partners(Graph graph, int rank, std::uint64_t seed);

  // All of them, the one to ask first at the end. Each is equally likely to be first.
  std::vector<int> next();
  // The worker of this rank is gone (Graph::remove).
  void remove(int rank) { graph_.remove(rank); }

 private:
  Graph graph_;
  const int rank_;
  std::mt19937_64 random_;
};

}  // namespace asup::gossip
