// Turns a single-process libtorch program into a distributed one:
//
//   auto job = asup::Job::join();
//   auto replica = asup::distribute(job, model, optimizer);
//   … loss.backward(); replica->step();
//
// All ranks call it, in the same order as their other calls on the job.
#pragma once

#include <memory>
#include <optional>

#include "asup/collective/communicator.h"
#include "asup/collective/cost/rates.h"
#include "asup/net/job.h"
#include "asup/sync/replica.h"
#include "asup/sync/server/server_replica.h"
#include "asup/train/own_steps_replica.h"
#include "asup/train/strategy.h"

namespace asup {

// The replica has a communicator of its own. Job, model and optimizer must outlive it. Without a
// strategy: the one in the environment. Throws BadInput for a strategy that cannot work.
std::unique_ptr<Replica> distribute(Job& job, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer);
std::unique_ptr<Replica> distribute(Job& job, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer, const Strategy& strategy);

// For what holds a module: torch's module holders and shared pointers.
template <typename Holder, typename... Rest>
auto distribute(Job& job, Holder& model, torch::optim::Optimizer& optimizer, const Rest&... rest)
    -> decltype(distribute(job, static_cast<torch::nn::Module&>(*model), optimizer, rest...)) {
  return distribute(job, static_cast<torch::nn::Module&>(*model), optimizer, rest...);
}

namespace train {

// The parts of it, for a caller that keeps them apart. `observed`: see Replica::observed().

// Throws BadInput where the job has no servers and needs some, or has some and needs none, or has
// too few workers. `uses_servers`: this strategy, or another one of the same job.
void check_roles(const Job& job, const Strategy& strategy, bool uses_servers);
std::unique_ptr<Communicator> make_communicator(Job& job, const Strategy& strategy,
                                                std::optional<collective::Rates> rates = {});
// What algorithms are chosen by where the strategy names none; nothing where it does. Collective.
std::optional<collective::Rates> find_rates(Job& job, Communicator& control,
                                            const Strategy& strategy);
// Over a communicator of its own. needs: a settled strategy without servers
std::unique_ptr<Replica> make_replica(Job& job, Communicator& communicator,
                                      torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                                      const Strategy& strategy, const std::string& observed = "",
                                      const Progress& progress = {});
// Through the job's servers, of which there is one model at a time. needs: a settled strategy
ServerReplicaOptions server_options(const Strategy& strategy);
std::unique_ptr<ServerReplica> make_server_replica(Job& job, Communicator& workers,
                                                   torch::nn::Module& model,
                                                   torch::optim::Optimizer& optimizer,
                                                   const ServerReplicaOptions& options);

}  // namespace train
}  // namespace asup
