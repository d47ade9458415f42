#include "asup/train/own_steps_replica.h"

#include "asup/sync/averaging/adpsgd_replica.h"
#include "asup/sync/averaging/diloco_replica.h"
#include "asup/sync/averaging/gossip_replica.h"
#include "asup/sync/averaging/local_replica.h"
#include "asup/train/own_steps_strategy.h"

namespace asup::train {
namespace {

Seconds jitter(const Strategy& strategy) { return Seconds(strategy.jitter_ms / 1000); }

LocalOptions local_options(const Strategy& strategy, const std::string& observed,
                           const Progress& progress) {
  LocalOptions options;
  options.adaptive = strategy.every == "auto";
  if (strategy.round_seconds > 0)
    options.every = 0;
  else if (!options.adaptive)
    options.every = steps_between_exchanges(strategy);
  options.local_after =
      std::max<std::int64_t>(0, steps_before_local(strategy, progress.steps) - progress.done);
  options.state = strategy.merge_state == "keep"    ? MergeState::keep
                  : strategy.merge_state == "reset" ? MergeState::reset
                                                    : MergeState::average;
  options.jitter = jitter(strategy);
  options.observed = observed;
  return options;
}

DilocoOptions diloco_options(const Strategy& strategy) {
  DilocoOptions options;
  options.every = steps_between_exchanges(strategy);
  options.outer_lr = strategy.outer_lr;
  options.outer_momentum = strategy.outer_momentum;
  options.overlap = strategy.outer_overlap;
  options.fragments = strategy.fragments;
  options.in_bf16 = strategy.exchange_dtype == "bf16";
  options.jitter = jitter(strategy);
  return options;
}

GossipOptions gossip_options(const Strategy& strategy) {
  GossipOptions options;
  options.every = steps_between_exchanges(strategy);
  options.graph = strategy.graph;
  options.jitter = jitter(strategy);
  return options;
}

AdPsgdOptions pairwise_options(const Strategy& strategy) {
  AdPsgdOptions options;
  options.every = steps_between_exchanges(strategy);
  options.graph = strategy.graph;
  options.patience = std::min(options.patience, strategy.timeout);
  return options;
}

}  // namespace

std::unique_ptr<Replica> make_own_steps_replica(Job& job, Communicator& communicator,
                                                torch::nn::Module& model,
                                                torch::optim::Optimizer& optimizer,
                                                const Strategy& strategy,
                                                const std::string& observed,
                                                const Progress& progress) {
  if (strategy.sync == "adpsgd")
    return make_adpsgd_replica(communicator, net::workers_of(job), model, optimizer,
                               pairwise_options(strategy));
  if (strategy.sync == "diloco")
    return make_diloco_replica(communicator, model, optimizer, diloco_options(strategy));
  if (strategy.sync == "gossip")
    return make_gossip_replica(communicator, model, optimizer, gossip_options(strategy));
  return make_local_replica(communicator, model, optimizer,
                            local_options(strategy, observed, progress));
}

}  // namespace asup::train
