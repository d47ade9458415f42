#include "asup/sync/averaging/gossip_graph.h"

#include <bit>
#include <set>

namespace asup {

GossipRound gossip_round(GossipGraph graph, int rank, int ranks, std::uint64_t round) {
  if (ranks == 1) return {};
  if (graph == GossipGraph::ring) {
    // The two neighbours of a ring of two are one.
    const std::set<int> both{(rank + ranks - 1) % ranks, (rank + 1) % ranks};
    const std::vector<int> neighbours(both.begin(), both.end());
    return {neighbours, neighbours};
  }
  const auto turns = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  const int on = 1 << (round % turns);
  return {{(rank + on) % ranks}, {(rank + ranks - on) % ranks}};
}

}  // namespace asup
