// Synchronous gossip (D-PSGD): workers step on their own, and every k steps each takes the mean of
// its own model and those of a few others. Nobody waits for all.
//
//   x_i <- x_i + sum over those it hears from of (x_j - x_i) / (1 + their number)
//
// which is written so that rounding does not move models that agree. synchronize() takes the mean
// of all.
//
// X. Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017,
// arXiv:1705.09056. The exponential graph, one peer a round: B. Ying et al., "Exponential graph is
// provably efficient for decentralized deep training", NeurIPS 2021, arXiv:2110.13363; 2^m ranks
// agree after m rounds, were they not to step.
//
// In a code, what travels is what a model differs by from its public copy, which all who hear from
// it have too; what the code says is added to the copy by its owner and by them, and copies take
// the place of models in the equation above. The mean of all models stays, and what a code loses is
// in the next difference. A. Koloskova et al., "Decentralized stochastic optimization and gossip
// algorithms with compressed communication" (CHOCO-SGD), ICML 2019, arXiv:1902.00340, with a
// consensus step size of 1, which codes of four bits and more allow. On a graph with turns there
// are public copies for each turn, since each turn's differences go to others.
//
// Memory: copies of the model: its own, and one of each that it hears from in a round; in a code
// besides two, and for each turn more as many as there are public copies in one. The optimizer's
// state is each worker's own. See local_update_replica.h for what else differs from all-reduce.
#pragma once

#include <memory>
#include <string>

#include "asup/base/clock.h"
#include "asup/collective/communicator.h"
#include "asup/kernels/code.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {

struct GossipOptions {
  std::int64_t every = 1;      // steps
  std::string graph = "ring";  // one with a name, of gossip/graph.h
  Seconds jitter{0};           // an exchange is put off by up to so much, at random
  // Models travel whole without one. Of bf16, int8 and int4.
  kernels::Code code = kernels::Code::none;
};

// ReplicaStats::consensus_distance is of a sample of elements (consensus_estimator.h), of every
// tenth exchange, and exact after synchronize(). As make_all_reduce_replica() otherwise.
// Collective.
std::unique_ptr<sync::LocalUpdateReplica> make_gossip_replica(Communicator& communicator,
                                                              torch::nn::Module& module,
                                                              torch::optim::Optimizer& optimizer,
                                                              const GossipOptions& options = {});

}  // namespace asup
