// Who exchanges models with whom in synchronous gossip. Pure; safe from any thread.
//
// In every round each rank sends to as many ranks as it hears from, and takes the mean of its own
// model and theirs: the weights of what a rank sends, and of what it hears, both add up to 1, so
// that the mean over all ranks stays what it was.
#pragma once

#include <cstdint>
#include <vector>

namespace asup {

enum class GossipGraph {
  ring,        // both neighbours, in every round
  exponential  // one rank: 1, 2, 4, … places on, by turns
};

struct GossipRound {
  std::vector<int> to, from;  // ascending, without the rank itself
};

// `round`: counted from 0, the same on all ranks. Of one rank: nobody.
GossipRound gossip_round(GossipGraph graph, int rank, int ranks, std::uint64_t round);

}  // namespace asup
