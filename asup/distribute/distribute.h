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
#include "asup/distribute/strategy.h"
#include "asup/net/job.h"
#include "asup/sync/recovery.h"
#include "asup/sync/replica.h"
#include "asup/sync/server/server_replica.h"

namespace asup {

// A replica with a communicator of its own. Where workers step on their own and the launcher lets
// the job go on (`--on-loss continue`), those who are left do so in step().
class DistributedReplica final : public Replica {
 public:
  DistributedReplica(Job& job, std::unique_ptr<Communicator> communicator, MadeReplica made);

  StepResult step() override;
  void finish_exchange() override { made_.replica->finish_exchange(); }
  double clip_grad_norm(double max_norm) override {
    return made_.replica->clip_grad_norm(max_norm);
  }
  void set_sync(bool sync) override { made_.replica->set_sync(sync); }
  void describe_batch(std::uint64_t samples, double loss) override {
    made_.replica->describe_batch(samples, loss);
  }
  void synchronize() override { made_.replica->synchronize(); }
  bool models_differ() override { return made_.replica->models_differ(); }
  void average_buffers() override { made_.replica->average_buffers(); }
  void with_mean_model(const std::function<void()>& use) override {
    made_.replica->with_mean_model(use);
  }
  void check_equal() override { made_.replica->check_equal(); }
  std::string observed() const override { return made_.replica->observed(); }
  ReplicaState state() override { return made_.replica->state(); }
  void restore(const ReplicaState& state) override { made_.replica->restore(state); }
  bool keeps_own_optimizer() const override { return made_.replica->keeps_own_optimizer(); }
  std::vector<sync::NamedTensor> fetch_optimizer_state() override {
    return made_.replica->fetch_optimizer_state();
  }
  void gather_optimizer_state() override { made_.replica->gather_optimizer_state(); }
  ReplicaStats stats() const override { return made_.replica->stats(); }

  // Where servers keep the parameters, what more there is to do with them; else null.
  ServerReplica* servers() { return made_.server; }

 private:
  bool regroup();

  const std::unique_ptr<Communicator> communicator_;
  const MadeReplica made_;
  std::optional<sync::Recovery> recovery_;
};

// Job, model and optimizer must outlive the replica. Without a strategy: the one in the
// environment. Throws BadInput for a strategy that cannot work.
std::unique_ptr<DistributedReplica> distribute(Job& job, torch::nn::Module& model,
                                               torch::optim::Optimizer& optimizer);
std::unique_ptr<DistributedReplica> distribute(Job& job, torch::nn::Module& model,
                                               torch::optim::Optimizer& optimizer,
                                               const Strategy& strategy);

// For what holds a module: torch's module holders and shared pointers.
template <typename Holder, typename... Rest>
auto distribute(Job& job, Holder& model, torch::optim::Optimizer& optimizer, const Rest&... rest)
    -> decltype(distribute(job, static_cast<torch::nn::Module&>(*model), optimizer, rest...)) {
  return distribute(job, static_cast<torch::nn::Module&>(*model), optimizer, rest...);
}

// The parts of it, for a caller that keeps them apart.

// Throws BadInput where the job has no servers and needs some, or has some and needs none, or has
// too few workers. `uses_servers`: this strategy, or another one of the same job.
void check_roles(const Job& job, const Strategy& strategy, bool uses_servers);
std::unique_ptr<Communicator> make_communicator(Job& job, const Strategy& strategy,
                                                std::optional<collective::Rates> rates = {});
// What algorithms are chosen by where the strategy names none; nothing where it does. Collective.
std::optional<collective::Rates> find_rates(Job& job, Communicator& control,
                                            const Strategy& strategy);

}  // namespace asup
