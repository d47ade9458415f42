#include "asup/train/distribute.h"

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/mesh_communicator.h"
#include "asup/collective/tuning/start.h"
#include "asup/sync/all_reduce_replica.h"

namespace asup {
namespace {

BufferSync buffer_sync(const std::string& name) {
  if (name == "local") return BufferSync::local;
  if (name == "broadcast") return BufferSync::broadcast;
  require(name == "average", "buffers = '{}' is none of local, broadcast, average", name);
  return BufferSync::average;
}

void check_roles(const Job& job, const Strategy& strategy) {
  require(
      !strategy.needs_servers() || job.servers() > 0,
      "sync = {} keeps the parameters on servers, and this job has none: start it with asup run "
      "--servers 1",
      strategy.sync);
  require(strategy.needs_servers() || job.servers() == 0,
          "this job has {} servers, and sync = {} has no use for them: say sync = server, or start "
          "it without servers",
          job.servers(), strategy.sync);
}

// Hands everything on to a replica whose communicator it owns.
class DistributedReplica final : public Replica {
 public:
  DistributedReplica(std::unique_ptr<Communicator> communicator, torch::nn::Module& model,
                     torch::optim::Optimizer& optimizer, const Strategy& strategy)
      : communicator_(std::move(communicator)),
        replica_(train::make_replica(*communicator_, model, optimizer, strategy)) {}

  StepResult step() override { return replica_->step(); }
  void finish_exchange() override { replica_->finish_exchange(); }
  void set_sync(bool sync) override { replica_->set_sync(sync); }
  void average_buffers() override { replica_->average_buffers(); }
  void check_equal() override { replica_->check_equal(); }
  std::string learned() const override { return replica_->learned(); }
  ReplicaStats stats() const override { return replica_->stats(); }

 private:
  const std::unique_ptr<Communicator> communicator_;
  const std::unique_ptr<Replica> replica_;
};

}  // namespace

std::unique_ptr<Replica> distribute(Job& job, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer) {
  return distribute(job, model, optimizer, Strategy::from(net::process_environment()));
}

std::unique_ptr<Replica> distribute(Job& job, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer, const Strategy& chosen) {
  const Strategy strategy = chosen.settled();
  check_roles(job, strategy);
  auto control = train::make_communicator(job, strategy);
  auto communicator =
      train::make_communicator(job, strategy, train::find_rates(job, *control, strategy));
  return std::make_unique<DistributedReplica>(std::move(communicator), model, optimizer, strategy);
}

namespace train {

std::unique_ptr<Communicator> make_communicator(Job& job, const Strategy& strategy,
                                                std::optional<collective::Rates> rates) {
  CommunicatorOptions options;
  options.timeout = strategy.timeout;
  if (strategy.algorithm != "auto") options.algorithm = strategy.algorithm;
  options.rates = std::move(rates);
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

std::unique_ptr<Replica> make_replica(Communicator& communicator, torch::nn::Module& model,
                                      torch::optim::Optimizer& optimizer, const Strategy& strategy,
                                      const std::string& learned) {
  require(strategy.sync == "allreduce",
          "sync = {} is not available in this version of asup; sync = allreduce is.",
          strategy.sync);
  require(strategy.bucket_mb > 0, "bucket-mb = {} is out of range (allowed: above 0)",
          strategy.bucket_mb);
  AllReduceOptions options;
  options.bucket_bytes = static_cast<std::size_t>(strategy.bucket_mb * (1 << 20));
  options.first_bucket_bytes = std::min(options.first_bucket_bytes, options.bucket_bytes);
  options.buffers = buffer_sync(strategy.buffers);
  options.learned = learned;
  return make_all_reduce_replica(communicator, model, optimizer, options);
}

}  // namespace train
}  // namespace asup
