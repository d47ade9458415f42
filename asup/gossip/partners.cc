#include "asup/gossip/partners.h"

#include <utility>

namespace asup::gossip {

Partners::Partners(Graph graph, int rank, std::uint64_t seed)
    : graph_(std::move(graph)), rank_(rank) {
  std::seed_seq mixed{seed, seed >> 32, static_cast<std::uint64_t>(rank)};
  random_.seed(mixed);
}

// Fisher and Yates; std::shuffle differs between standard libraries.
std::vector<int> Partners::next() {
  std::vector<int> order = graph_.partners(rank_);
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random_() % left]);
  return order;
}

}  // namespace asup::gossip
