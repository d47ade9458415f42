// Workers and servers as threads of a test, for replicas that train through a parameter server.
#pragma once

#include <functional>

#include "asup/ps/server.h"
#include "asup/sync/server/server_replica.h"
#include "tests/sync/training.h"

namespace asup::testing {

struct ServerStage {
  int rank;
  Communicator& workers;
  net::MemberGroup group;

  std::unique_ptr<ServerReplica> make(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                      const ServerReplicaOptions& options = {}) const {
    return make_server_replica(workers, group, module, optimizer, options);
  }
};

// Runs `body` on each worker; servers serve until all of them are gone.
inline void train_with_servers(int workers, int servers, net::LinkKind links,
                               const std::function<void(const ServerStage&)>& body) {
  torch::set_num_threads(1);
  const auto play = [&](Job& job) {
    const net::MemberGroup group = net::workers_and_servers(job);
    if (job.is_server()) {
      ps::Server(group, {.threads = 2, .patience = testing::kPatience}).run();
      return;
    }
    CommunicatorOptions options;
    options.timeout = testing::kPatience;
    const auto communicator = make_communicator(job, options);
    body({job.rank(), *communicator, group});
  };
  run_ranks(workers + servers, links, play, servers);
}

}  // namespace asup::testing
