// Workers and servers as threads of a test, for replicas that train through a parameter server.
#pragma once

#include <functional>

#include "asup/ps/server.h"
#include "asup/sync/server_replica.h"
#include "tests/sync/training.h"

namespace asup::testing {

struct ServerStage {
  int rank;
  Communicator& workers;
  ps::Team team;

  std::unique_ptr<ServerReplica> make(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                      const ServerReplicaOptions& options = {}) const {
    return make_server_replica(workers, team, module, optimizer, options);
  }
};

// Runs `body` on each worker; servers serve until all of them are gone.
inline void train_with_servers(int workers, int servers, net::LinkKind links,
                               const std::function<void(const ServerStage&)>& body) {
  torch::set_num_threads(1);
  run_ranks(workers + servers, links, [&](Job& job) {
    CommunicatorOptions options;
    options.timeout = Seconds(20);
    const auto all = make_communicator(job, options);
    const ps::Team team{job.mesh(), job.next_communicator_id(), workers, servers};
    const int member = job.mesh().rank();
    const auto among_workers = all->split(team.is_worker(member) ? 0 : -1, member);
    if (among_workers) return body({member, *among_workers, team});
    ps::Server(team, {.threads = 2, .patience = Seconds(20)}).run();
  });
}

}  // namespace asup::testing
