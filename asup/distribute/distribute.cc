#include "asup/distribute/distribute.h"

#include <fmt/ranges.h>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/mesh/subgroup_communicator.h"
#include "asup/collective/tuning/start.h"
#include "asup/distribute/ways.h"
#include "asup/net/membership/roles.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

// Ways whose workers go on, with their usual options.
std::vector<std::string_view> names_of_survivors() {
  std::vector<std::string_view> names;
  for (const Way* way : ways())
    if (way->capabilities(way->usual()).survives_loss) names.push_back(way->name);
  return names;
}

void check_for_program(const Job& job, const Strategy& strategy) {
  strategy.check();
  const Capabilities capabilities = strategy.capabilities();
  check_roles(job, strategy, capabilities.needs_servers);
  require(capabilities.round.count() == 0,
          "round-seconds = {:g} is for asup train: in a program of your own, call the replica's "
          "synchronize() when the time is over",
          capabilities.round.count());
  if (job.rank() == 0 && job.options().goes_on_after_loss && !capabilities.survives_loss)
    log().warn(
        "--on-loss continue: by sync = {} workers cannot go on without one of them, and a loss "
        "ends "
        "the job. They can by {}.",
        strategy.name(), fmt::join(names_of_survivors(), ", "));
}

}  // namespace

DistributedReplica::DistributedReplica(Job& job, std::unique_ptr<Communicator> communicator,
                                       MadeReplica made)
    : communicator_(std::move(communicator)), made_(std::move(made)) {
  if (!made_.local || !job.options().goes_on_after_loss) return;
  recovery_.emplace(job, std::vector{communicator_.get()}, [this] { made_.local->regroup(); });
}

// This worker's own step is done when an exchange fails. Workers that are left may be in different
// steps then: they merge where they are, and each goes on from there.
StepResult DistributedReplica::step() {
  try {
    return made_.replica->step();
  } catch (const JobFailed&) {
    if (!regroup()) throw;
  }
  while (true) try {
      made_.replica->synchronize();
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

std::unique_ptr<DistributedReplica> distribute(Job& job, torch::nn::Module& model,
                                               torch::optim::Optimizer& optimizer) {
  return distribute(job, model, optimizer, Strategy::from(net::process_environment()));
}

std::unique_ptr<DistributedReplica> distribute(Job& job, torch::nn::Module& model,
                                               torch::optim::Optimizer& optimizer,
                                               const Strategy& strategy) {
  check_for_program(job, strategy);
  auto communicator = make_communicator(job, strategy);
  if (!strategy.capabilities().needs_servers) {
    const auto rates = find_rates(job, *communicator, strategy);
    communicator = make_communicator(job, strategy, rates);
  }
  MadeReplica made = strategy.make(
      {.job = job,
       .communicator = *communicator,
       .model = model,
       .optimizer = optimizer,
       .timeout = strategy.timeout > Seconds(0) ? strategy.timeout : job.options().call_timeout});
  return std::make_unique<DistributedReplica>(job, std::move(communicator), std::move(made));
}

void check_roles(const Job& job, const Strategy& strategy, bool uses_servers) {
  require(
      !strategy.capabilities().needs_servers || job.servers() > 0,
      "sync = {} keeps the parameters on servers, and this job has none: start it with asup run "
      "--servers 1",
      strategy.name());
  require(uses_servers || job.servers() == 0,
          "this job has {} servers, and sync = {} has no use for them: say sync = server, or start "
          "it without servers",
          job.servers(), strategy.name());
  strategy.check_workers(job.size());
}

std::unique_ptr<Communicator> make_communicator(Job& job, const Strategy& strategy,
                                                std::optional<collective::Rates> rates) {
  CommunicatorOptions options;
  options.timeout = strategy.timeout;
  if (strategy.algorithm != "auto") options.algorithm = strategy.algorithm;
  options.rates = std::move(rates);
  const Capabilities capabilities = strategy.capabilities();
  if (!capabilities.lockstep && !capabilities.needs_servers)
    return std::make_unique<SubgroupCommunicator>(job, std::move(options));
  return make_communicator(job, std::move(options));
}

std::optional<collective::Rates> find_rates(Job& job, Communicator& control,
                                            const Strategy& strategy) {
  using namespace collective::tuning;
  if (strategy.algorithm != "auto") return std::nullopt;
  const StartRates found = rates_at_start(control, surroundings_of(job), RatesCache::of_user());
  log().info("algorithms are chosen by rates {}", in_words(found.origin));
  return found.rates;
}

}  // namespace asup
