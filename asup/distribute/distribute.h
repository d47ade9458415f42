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
#include "asup/distribute/step_watch.h"
#include "asup/distribute/strategy.h"
#include "asup/net/job.h"
#include "asup/sync/recovery.h"
#include "asup/sync/replica.h"
#include "asup/sync/server/server_replica.h"

namespace asup {

class RecordedTimeline;

// A replica with a communicator of its own, for a program that may go wrong: it notices where
// optimizer.step() is called in its place, and says at the end where models were not made one.
// Where the way of training can do without a worker and the launcher lets the job go on
// (`--on-loss continue`), those who are left do so in step(), and in what is collective between
// steps: synchronize(), with_mean_model(), reduce_metrics(), a checkpoint.
class DistributedReplica final : public Replica {
 public:
  struct Parts {
    Strategy strategy;
    std::unique_ptr<Communicator> communicator{}, control{};
    std::unique_ptr<StepWatch> watch{};
    MadeReplica made{};
    std::shared_ptr<RecordedTimeline> timeline{};  // null: none is recorded by this replica
    // What the replica calls after a loss (ReplicaContext::regroup), for this to fill in; or null.
    std::shared_ptr<std::function<bool()>> regroup{};
  };
  DistributedReplica(Job& job, Parts parts);
  ~DistributedReplica() override;

  StepResult step() override;
  void finish_exchange() override { made_.replica->finish_exchange(); }
  double clip_grad_norm(double max_norm) override {
    return made_.replica->clip_grad_norm(max_norm);
  }
  bool clips_after_exchange() const override { return made_.replica->clips_after_exchange(); }
  void set_sync(bool sync) override;
  void describe_batch(std::uint64_t samples, double loss) override {
    made_.replica->describe_batch(samples, loss);
  }
  void describe_weighed_batch(std::uint64_t samples) override {
    made_.replica->describe_weighed_batch(samples);
  }
  void synchronize() override;
  bool has_moved() const override { return made_.replica->has_moved(); }
  bool models_differ() override { return made_.replica->models_differ(); }
  void average_buffers() override { made_.replica->average_buffers(); }
  void with_mean_model(const std::function<void()>& use) override;
  void with_whole_model(const std::function<void()>& use) override {
    made_.replica->with_whole_model(use);
  }
  void check_equal() override;
  std::string observed() const override { return made_.replica->observed(); }
  ReplicaState state() override;
  void restore(const ReplicaState& state) override { made_.replica->restore(state); }
  bool keeps_own_optimizer() const override { return made_.replica->keeps_own_optimizer(); }
  std::vector<sync::NamedTensor> fetch_optimizer_state() override {
    return made_.replica->fetch_optimizer_state();
  }
  void gather_optimizer_state() override { made_.replica->gather_optimizer_state(); }
  void apply_kept() override { made_.replica->apply_kept(); }
  ReplicaStats stats() const override { return made_.replica->stats(); }

  // Where servers keep the parameters, what more there is to do with them; else null.
  ServerReplica* servers() { return made_.server; }
  const Strategy& strategy() const { return strategy_; }
  // For what a program exchanges itself, between steps: of the workers that are left.
  Communicator& control() { return *control_; }

  // What all workers do between steps: `call`, of which nobody takes the result unless it returns.
  // Where a worker is lost meanwhile, those who are left do it again, unless one of them has done
  // it and gone on: false then.
  bool together(const std::function<void()>& call);
  // Throws JobFailed then.
  void all_together(const std::function<void()>& call);
  const std::vector<int>& left() const { return left_; }  // workers, by their ranks in the job

 private:
  StepResult step_together();
  void merge();
  bool regroup();
  void find_furthest();
  bool is_behind() const;

  void tell_timeline();

  const Strategy strategy_;
  const std::shared_ptr<RecordedTimeline> timeline_;
  const std::unique_ptr<Communicator> communicator_, control_;
  const std::unique_ptr<StepWatch> watch_;
  const MadeReplica made_;
  std::optional<sync::Recovery> recovery_;
  std::vector<int> left_;
  std::int64_t calls_ = 0;  // of together()
  bool in_call_ = false;
  // Of those who were left when one was lost last: others take these steps alone, and leave these
  // calls out.
  std::int64_t furthest_step_ = 0, furthest_call_ = 0;
  bool mean_was_used_ = false;  // since the last step: the program knows that models differ
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
// The same of these workers alone, who make it by themselves (collective/mesh/mesh_communicator.h).
// needs: a strategy in lockstep
std::unique_ptr<Communicator> make_communicator(Job& job, const std::vector<int>& workers,
                                                std::string_view name, const Strategy& strategy,
                                                std::optional<collective::Rates> rates = {});
// What algorithms are chosen by where the strategy names none; nothing where it does. Collective.
std::optional<collective::Rates> find_rates(Job& job, Communicator& control,
                                            const Strategy& strategy);

}  // namespace asup
