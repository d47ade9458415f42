#include "asup/train/distribute.h"

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/mesh/subgroup_communicator.h"
#include "asup/collective/tuning/start.h"
#include "asup/net/member_group.h"
#include "asup/net/membership/roles.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/sync/model/sharing.h"
#include "asup/sync/recovery.h"
#include "asup/train/own_steps_strategy.h"

namespace asup {
namespace {

BufferSync buffer_sync(const std::string& name) {
  if (name == "local") return BufferSync::local;
  if (name == "broadcast") return BufferSync::broadcast;
  require(name == "average", "buffers = '{}' is none of local, broadcast, average", name);
  return BufferSync::average;
}

std::size_t bucket_bytes(const Strategy& strategy) {
  require(strategy.bucket_mb > 0, "bucket-mb = {} is out of range (allowed: above 0)",
          strategy.bucket_mb);
  return static_cast<std::size_t>(strategy.bucket_mb * (1 << 20));
}

// Hands everything on to a replica whose communicator it owns. Where workers step on their own and
// the launcher lets the job go on (`--on-loss continue`), those who are left do so in step().
class DistributedReplica final : public Replica {
 public:
  DistributedReplica(Job& job, std::unique_ptr<Communicator> communicator,
                     std::unique_ptr<Replica> replica)
      : communicator_(std::move(communicator)), replica_(std::move(replica)) {
    if (replica_->local_updates() == nullptr || !job.options().goes_on_after_loss) return;
    recovery_.emplace(job, std::vector{communicator_.get()},
                      [this] { replica_->local_updates()->regroup(); });
  }

  StepResult step() override;
  void finish_exchange() override { replica_->finish_exchange(); }
  void set_sync(bool sync) override { replica_->set_sync(sync); }
  void describe_batch(std::uint64_t samples, double loss) override {
    replica_->describe_batch(samples, loss);
  }
  void synchronize() override { replica_->synchronize(); }
  void average_buffers() override { replica_->average_buffers(); }
  void check_equal() override { replica_->check_equal(); }
  std::string observed() const override { return replica_->observed(); }
  std::vector<sync::NamedTensor> state() const override { return replica_->state(); }
  bool keeps_own_optimizer() const override { return replica_->keeps_own_optimizer(); }
  ReplicaStats stats() const override { return replica_->stats(); }
  ServerReplica* servers() override { return replica_->servers(); }

 private:
  bool regroup();

  const std::unique_ptr<Communicator> communicator_;
  const std::unique_ptr<Replica> replica_;
  std::optional<sync::Recovery> recovery_;
};

// This worker's own step is done when an exchange fails. Workers that are left may be in different
// steps then: they merge where they are, and each goes on from there.
StepResult DistributedReplica::step() {
  try {
    return replica_->step();
  } catch (const JobFailed&) {
    if (!regroup()) throw;
  }
  while (true) try {
      replica_->synchronize();
      return StepResult::applied;
    } catch (const JobFailed&) {
      if (!regroup()) throw;
    }
}

bool DistributedReplica::regroup() {
  const auto change = recovery_ ? recovery_->regroup() : std::nullopt;
  if (!change) return false;
  if (communicator_->rank() == 0)
    log().warn("{} {} lost: {} workers go on", net::name_ranks(change->lost),
               change->lost.size() == 1 ? "was" : "were", recovery_->left().size());
  return true;
}

}  // namespace

std::unique_ptr<Replica> distribute(Job& job, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer) {
  return distribute(job, model, optimizer, Strategy::from(net::process_environment()));
}

std::unique_ptr<Replica> distribute(Job& job, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer, const Strategy& chosen) {
  chosen.require_available();
  const Strategy strategy = chosen.settled();
  train::check_roles(job, strategy, strategy.needs_servers());
  require(strategy.round_seconds == 0,
          "round-seconds = {} is for asup train: in a program of your own, call the replica's "
          "synchronize() when the time is over",
          strategy.round_seconds);
  auto control = train::make_communicator(job, strategy);
  if (strategy.needs_servers()) {
    auto replica = train::make_server_replica(job, *control, model, optimizer,
                                              train::server_options(strategy));
    return std::make_unique<DistributedReplica>(job, std::move(control), std::move(replica));
  }
  auto communicator =
      train::make_communicator(job, strategy, train::find_rates(job, *control, strategy));
  auto replica = train::make_replica(job, *communicator, model, optimizer, strategy);
  return std::make_unique<DistributedReplica>(job, std::move(communicator), std::move(replica));
}

namespace train {

void check_roles(const Job& job, const Strategy& strategy, bool uses_servers) {
  require(
      !strategy.needs_servers() || job.servers() > 0,
      "sync = {} keeps the parameters on servers, and this job has none: start it with asup run "
      "--servers 1",
      strategy.sync);
  require(strategy.sync != "gossip" || job.size() > 1,
          "sync = gossip averages models among neighbours, and this job has one worker: start it "
          "with asup run -n 2, or say sync = allreduce");
  require(uses_servers || job.servers() == 0,
          "this job has {} servers, and sync = {} has no use for them: say sync = server, or start "
          "it without servers",
          job.servers(), strategy.sync);
}

std::unique_ptr<Communicator> make_communicator(Job& job, const Strategy& strategy,
                                                std::optional<collective::Rates> rates) {
  CommunicatorOptions options;
  options.timeout = strategy.timeout;
  if (strategy.algorithm != "auto") options.algorithm = strategy.algorithm;
  options.rates = std::move(rates);
  if (strategy.has_own_pace())
    return std::make_unique<SubgroupCommunicator>(job, std::move(options));
  return asup::make_communicator(job, std::move(options));
}

std::optional<collective::Rates> find_rates(Job& job, Communicator& control,
                                            const Strategy& strategy) {
  using namespace collective::tuning;
  if (strategy.algorithm != "auto") return std::nullopt;
  const StartRates found = rates_at_start(control, surroundings_of(job), RatesCache::of_user());
  log().info("algorithms are chosen by rates {}", in_words(found.origin));
  return found.rates;
}

std::unique_ptr<Replica> make_replica(Job& job, Communicator& communicator,
                                      torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                                      const Strategy& strategy, const std::string& observed,
                                      const Progress& progress) {
  if (strategy.has_own_steps())
    return make_own_steps_replica(job, communicator, model, optimizer, strategy, observed,
                                  progress);
  AllReduceOptions options;
  options.bucket_bytes = bucket_bytes(strategy);
  options.first_bucket_bytes = std::min(options.first_bucket_bytes, options.bucket_bytes);
  options.buffers = buffer_sync(strategy.buffers);
  options.observed = observed;
  return make_all_reduce_replica(communicator, model, optimizer, options);
}

ServerReplicaOptions server_options(const Strategy& strategy) {
  ServerReplicaOptions options;
  options.bucket_bytes = bucket_bytes(strategy);
  options.first_bucket_bytes = std::min(options.first_bucket_bytes, options.bucket_bytes);
  options.pace.kind = ps::pace::kind_of(strategy.pace);
  if (strategy.staleness > 0) options.pace.staleness = static_cast<double>(strategy.staleness);
  options.pace.backup = static_cast<int>(strategy.backup);
  options.pace.stale_lr = strategy.stale_lr;
  options.pace.non_finite = ps::pace::non_finite_of(strategy.non_finite);
  options.pace.freeze = strategy.freeze_pace;
  options.merge = strategy.merge == "easgd"  ? Merge::easgd
                  : strategy.merge == "mean" ? Merge::mean
                                             : Merge::none;
  if (options.merge != Merge::none) options.every = steps_between_exchanges(strategy);
  options.elasticity = strategy.elasticity;
  options.compensation = strategy.compensation;
  options.local = sync::split_names(strategy.local_parameters);
  options.evaluate_with = strategy.evaluate_with == "first" ? Unshared::first
                          : strategy.evaluate_with == "own" ? Unshared::own
                                                            : Unshared::average;
  options.resume = strategy.resume_servers;
  options.timeout = strategy.timeout;
  return options;
}

std::unique_ptr<ServerReplica> make_server_replica(Job& job, Communicator& workers,
                                                   torch::nn::Module& model,
                                                   torch::optim::Optimizer& optimizer,
                                                   const ServerReplicaOptions& options) {
  return asup::make_server_replica(workers, net::workers_and_servers(job), model, optimizer,
                                   options);
}

}  // namespace train
}  // namespace asup
