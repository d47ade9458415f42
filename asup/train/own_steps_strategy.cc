#include "asup/train/own_steps_strategy.h"

#include <cmath>
#include <optional>

#include "asup/base/numbers.h"
#include "asup/train/step_or_share.h"
#include "asup/train/strategy_checks.h"

namespace asup::train {
namespace {

constexpr std::string_view kUsual = "usual";
constexpr double kUsualRounds = 2;  // that a late worker is waited for

std::int64_t steps_in(const std::string& every) {
  const auto number = number_in<double>(every);
  require(number && *number >= 1 && *number <= 1e9 && *number == std::floor(*number),
          "every = {} is no number of steps between two exchanges of models (allowed: 1 … 1e9; "
          "auto with sync = local)",
          every);
  return static_cast<std::int64_t>(*number);
}

StepOrShare local_after(const Strategy& strategy) {
  const auto moment = step_or_share_in(strategy.local_after);
  require(moment.has_value(),
          "local-after = '{}' is no number of steps and no share of the run, like 30% (allowed: 0% "
          "… 100%)",
          strategy.local_after);
  return *moment;
}

void require_local_unused(const Strategy& strategy, const std::string& because) {
  require_unused("local-after", &Strategy::local_after, strategy, because);
  require_unused("merge-state", &Strategy::merge_state, strategy, because);
}

void require_diloco_unused(const Strategy& strategy, const std::string& because) {
  require_unused("outer-lr", &Strategy::outer_lr, strategy, because);
  require_unused("outer-momentum", &Strategy::outer_momentum, strategy, because);
  require_unused("outer-overlap", &Strategy::outer_overlap, strategy, because);
  require_unused("fragments", &Strategy::fragments, strategy, because);
  require_unused("exchange-dtype", &Strategy::exchange_dtype, strategy, because);
}

// Where rounds have a time, they have no number of steps.
void settle_timed_rounds(const Strategy& strategy) {
  const std::string because = "models are merged every round-seconds";
  require_unused("every", &Strategy::every, strategy, because);
  require_unused("local-after", &Strategy::local_after, strategy, because);
  require_unused("jitter-ms", &Strategy::jitter_ms, strategy, because + ", by all at once");
}

void settle_local(Strategy& strategy) {
  require_one_of("merge-state", strategy.merge_state, std::array{"average", "keep", "reset"});
  require_unused("graph", &Strategy::graph, strategy, "sync = local averages the models of all");
  require_diloco_unused(strategy, "it is a choice of sync = diloco, not local");
  if (strategy.round_seconds > 0) return settle_timed_rounds(strategy);
  if (strategy.every == kUsual) strategy.every = "8";
  const bool adapts = strategy.every == "auto";
  const std::int64_t every = adapts ? 0 : steps_in(strategy.every);
  local_after(strategy);
  if (every == 1)
    require_unused("local-after", &Strategy::local_after, strategy,
                   "every = 1 merges models after every step anyway");
}

void settle_diloco(Strategy& strategy) {
  if (strategy.every == kUsual) strategy.every = "100";
  const std::int64_t every = steps_in(strategy.every);
  require(strategy.fragments >= 1 && strategy.fragments <= every,
          "fragments = {} cannot be exchanged one by one in every = {} steps. Lower fragments, or "
          "raise every.",
          strategy.fragments, every);
  require(strategy.outer_overlap >= 0 && strategy.outer_overlap < every,
          "outer-overlap = {} steps do not end before the next exchange, which begins after every "
          "= {} steps. Lower outer-overlap, or raise every.",
          strategy.outer_overlap, every);
  require(strategy.outer_lr > 0 && strategy.outer_momentum >= 0 && strategy.outer_momentum < 1,
          "outer-lr = {} and outer-momentum = {} are out of range (allowed: above 0; from 0, below "
          "1)",
          strategy.outer_lr, strategy.outer_momentum);
  require_one_of("exchange-dtype", strategy.exchange_dtype, std::array{"f32", "bf16"});
  require_unused("graph", &Strategy::graph, strategy, "sync = diloco exchanges with all");
  require_local_unused(strategy, "it is a choice of sync = local, not diloco");
  require_unused("round-seconds", &Strategy::round_seconds, strategy,
                 "with sync = diloco, workers go in step");
}

void settle_gossip(Strategy& strategy) {
  if (strategy.every == kUsual) strategy.every = "1";
  steps_in(strategy.every);
  require(strategy.graph == "ring" || strategy.graph == "exponential",
          "graph = '{}' is none of ring, exponential, which sync = gossip knows", strategy.graph);
  require_local_unused(strategy, "it is a choice of sync = local, not gossip");
  require_diloco_unused(strategy, "it is a choice of sync = diloco, not gossip");
  require_unused("round-seconds", &Strategy::round_seconds, strategy,
                 "with sync = gossip, workers go in step");
}

void settle_pairwise(Strategy& strategy) {
  if (strategy.every == kUsual) strategy.every = "1";
  steps_in(strategy.every);
  require_local_unused(strategy, "it is a choice of sync = local, not adpsgd");
  require_diloco_unused(strategy, "it is a choice of sync = diloco, not adpsgd");
  require_unused("jitter-ms", &Strategy::jitter_ms, strategy,
                 "with sync = adpsgd, every worker exchanges models at moments of its own");
}

}  // namespace

void settle_own_steps(Strategy& strategy) {
  if (strategy.sync == "local") settle_local(strategy);
  if (strategy.sync == "diloco") settle_diloco(strategy);
  if (strategy.sync == "gossip") settle_gossip(strategy);
  if (strategy.sync == "adpsgd") settle_pairwise(strategy);
  require(strategy.round_seconds >= 0, "round-seconds = {} cannot be below 0",
          strategy.round_seconds);
  if (strategy.round_seconds == 0)
    require_unused("merge-deadline", &Strategy::merge_deadline, strategy,
                   "without round-seconds there are no rounds whose merge somebody could miss");
  patience_of(strategy);
  require(strategy.jitter_ms >= 0, "jitter-ms = {} cannot be below 0", strategy.jitter_ms);
  require_unused("buffers", &Strategy::buffers, strategy,
                 "where workers step on their own, statistics stay on their worker, and a test "
                 "takes their average");
  require_unused("bucket-mb", &Strategy::bucket_mb, strategy,
                 "where workers step on their own, no gradients travel");
}

void refuse_own_steps_choices(const Strategy& strategy) {
  const auto because =
      fmt::format("with sync = {}, workers do not step on their own", strategy.sync);
  if (strategy.merge == "none") require_unused("every", &Strategy::every, strategy, because);
  require_local_unused(strategy, because);
  require_diloco_unused(strategy, because);
  require_unused("graph", &Strategy::graph, strategy, because);
  require_unused("jitter-ms", &Strategy::jitter_ms, strategy, because);
  require_unused("round-seconds", &Strategy::round_seconds, strategy, because);
  require_unused("merge-deadline", &Strategy::merge_deadline, strategy, because);
}

Seconds patience_of(const Strategy& strategy) {
  if (strategy.merge_deadline == kUsual) return Seconds(kUsualRounds * strategy.round_seconds);
  const auto number = number_in<double>(strategy.merge_deadline);
  require(number && *number >= 0 && *number <= 1e6,
          "merge-deadline = {} is no number of seconds (allowed: 0 … 1e6, usual)",
          strategy.merge_deadline);
  return Seconds(*number);
}

std::int64_t steps_between_exchanges(const Strategy& strategy) {
  return strategy.every == "auto" ? 0 : steps_in(strategy.every);
}

std::int64_t steps_before_local(const Strategy& strategy, std::int64_t steps) {
  const StepOrShare after = local_after(strategy);
  require(!after.is_share || steps > 0,
          "local-after = {} is a share of a run whose length is not known here: give a number of "
          "steps",
          strategy.local_after);
  return after.steps(steps);
}

}  // namespace asup::train
