// Synchronous gossip as a way of training (gossip_replica.h): its options, and what follows.
#pragma once

#include "asup/config/value.h"
#include "asup/sync/averaging/gossip_replica.h"
#include "asup/sync/way.h"

namespace asup {

constexpr auto names_of(GossipGraph) {
  using enum GossipGraph;
  return std::to_array<config::Named<GossipGraph>>({{"ring", ring}, {"exponential", exponential}});
}

struct Gossip {
  std::int64_t every = 1;
  GossipGraph graph = GossipGraph::ring;
  double jitter_ms = 0;
};

const Way& way_of(const Gossip&);

}  // namespace asup
