// AD-PSGD: workers step on their own, and each averages its model with one partner at a time, at
// its own pace, while it goes on (asup/gossip). Nobody waits for anybody.
//
// Between steps, what averages with partners have changed is added to the model. synchronize()
// waits for the exchange under way, and makes all models their mean, by one all-reduce. step() is
// not collective: workers may take different numbers of steps. A worker that is lost is passed
// over; synchronize() throws JobFailed then, and may be called again once those who are left have
// rebuilt the communicator.
//
// X. Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018,
// arXiv:1710.06952; docs/pairwise.md has the equations.
//
// Memory: four copies of the model. The optimizer's state is each worker's own. See
// local_update_replica.h for what else differs from all-reduce.
#pragma once

#include <memory>
#include <string>

#include "asup/collective/communicator.h"
#include "asup/net/member_group.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {

struct AdPsgdOptions {
  std::string graph = "ring";  // gossip/graph.h
  std::int64_t every = 1;      // a worker asks for an exchange so many steps after the last time
  bool in_bf16 = false;        // models travel in half of the bytes
  std::uint64_t seed = 0;      // of the choice of partners
  Seconds patience{10};        // with a partner that says nothing
};

// As make_all_reduce_replica() otherwise. Throws BadInput for fewer than two workers, and for
// parameters that are not f32. Collective.
std::unique_ptr<sync::LocalUpdateReplica> make_adpsgd_replica(Communicator& communicator,
                                                              net::MemberGroup group,
                                                              torch::nn::Module& module,
                                                              torch::optim::Optimizer& optimizer,
                                                              const AdPsgdOptions& options = {});

}  // namespace asup
