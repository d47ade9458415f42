#include <fmt/format.h>

#include <charconv>

#include "asup/base/error.h"
#include "asup/gossip/graph.h"
#include "asup/train/config_draft.h"
#include "asup/train/phases.h"
#include "asup/train/strategy.h"
#include "asup/train/worker_changes.h"

namespace asup::train {
namespace {

// Throws unless `name` is as in TrainConfig{}: it would have no effect, which nobody wants unsaid.
void unused(const TrainConfig& config, std::string_view name, std::string_view because) {
  const Setting* setting = find_setting(name);
  check(setting != nullptr, "no setting {}", name);
  const std::string value = text_of(config, *setting);
  require(value == text_of(TrainConfig{}, *setting), "{} = {} has no effect: {}. Leave it out.",
          name, value, because);
}

void check_balance(const TrainConfig& config, const Strategy& strategy) {
  require(!strategy.needs_servers() || strategy.pace == "bsp",
          "balance has no effect: through servers at pace {}, a fast worker leases more samples "
          "anyway. Leave it out.",
          strategy.pace);
  require(!strategy.needs_servers(),
          "balance is for sync = allreduce: through servers at pace bsp, leases are even. Say sync "
          "= asup, where a fast worker leases more, or leave balance out.");
  require(config.sync == "allreduce",
          "balance is for sync = allreduce, where workers meet in every step, not for {}. Leave it "
          "out.",
          config.sync);
  require(config.workers > 1,
          "balance divides batches among workers by their speed, and there is one worker. Raise "
          "workers, or leave balance out.");
}

void check_remainder(const TrainConfig& config, bool at_own_pace) {
  if (at_own_pace)
    unused(config, "remainder",
           "workers that go at their own pace go through their own samples, all of them");
}

// The one way that `config` has.
void settle_way(TrainConfig& config) {
  const Strategy strategy = strategy_of(config);
  require(config.sync != "gossip" || config.workers > 1,
          "sync = gossip averages models among neighbours, and one worker has none. Raise workers, "
          "or leave sync out.");
  if (config.sync == "adpsgd") gossip::graph_of(config.graph, static_cast<int>(config.workers));
  if (config.balance) check_balance(config, strategy);
  require(config.on_loss != "continue" || strategy.survives_loss() ||
              config.checkpoint_every.kind != Every::Kind::never,
          "on-loss = continue goes on from the last checkpoint, and there will be none. Set "
          "checkpoint-every, or leave on-loss out.");
  config.pace = strategy.pace;
  config.staleness = strategy.staleness;
  config.every = strategy.every;
  config.elasticity = strategy.elasticity;
}

void settle_sync(TrainConfig& config) {
  if (has_phases(config)) check_phases(config);
  const bool servers = needs_servers(config);
  if (!servers) unused(config, "servers", fmt::format("sync = {} has none", config.sync));
  if (servers && config.servers == 0) config.servers = 1;
  require(config.backup == 0 || config.backup < config.workers,
          "backup = {} leaves none of the {} workers to wait for. Lower backup, or raise workers.",
          config.backup, config.workers);
  if (!has_phases(config)) {
    unused(config, "at", "then names no other way");
    settle_way(config);
    return check_remainder(config, strategy_of(config).has_own_pace());
  }
  require(config.on_loss != "continue" || can_change_workers(config),
          "on-loss = continue changes to then = {} without the lost workers, from a checkpoint and "
          "by a graph for any number of them. Set checkpoint-every, and a graph with a name, or "
          "leave on-loss out.",
          config.then);
  // What is left open differs between the ways, and is filled in when each begins.
  bool at_own_pace = true;
  for (const Phase phase : {Phase::first, Phase::second}) {
    TrainConfig alone = of_phase(config, phase);
    settle_way(alone);
    at_own_pace = at_own_pace && strategy_of(alone).has_own_pace();
  }
  check_remainder(config, at_own_pace);
}

void check_portions(const TrainConfig& config) {
  require(config.batch >= config.workers,
          "batch {} is smaller than workers {}: each worker needs a sample of every batch. Raise "
          "batch, or lower workers.",
          config.batch, config.workers);
  const std::int64_t part = config.batch / config.workers;
  require(
      config.accumulate <= part,
      "accumulate {} cannot cut up a worker's part of a batch, which has {} samples (batch {} / "
      "workers {}). Lower accumulate, or raise batch.",
      config.accumulate, part, config.batch, config.workers);
}

void check_optimizer(const TrainConfig& config) {
  if (config.optimizer == "adam" || config.optimizer == "adamw") {
    unused(config, "momentum", fmt::format("{} has a momentum of its own", config.optimizer));
  }
  if (!config.nesterov) return;
  require(config.optimizer == "sgd", "nesterov is a kind of sgd's momentum, not of {}'s.",
          config.optimizer);
  require(config.momentum > 0, "nesterov needs a momentum above 0.");
}

void check_schedule(const TrainConfig& config) {
  const auto because = [&](const char* of) {
    return fmt::format("the schedule is {}, not {}", config.schedule, of);
  };
  if (config.schedule != "step") {
    unused(config, "decay-every", because("step"));
    unused(config, "decay-factor", because("step"));
  }
  if (config.schedule != "power") {
    unused(config, "eta-min", because("power"));
    unused(config, "power", because("power"));
  }
}

void check_data(const TrainConfig& config) {
  if (config.data == "synthetic") {
    parse_shape(config.synthetic_shape);
    return;
  }
  for (const auto& setting : settings()) {
    if (setting.name.starts_with("synthetic-")) {
      unused(config, setting.name, fmt::format("data is {}, not synthetic", config.data));
    }
  }
}

double usual_learning_rate(const std::string& optimizer) {
  if (optimizer == "sgd") return 0.05;
  if (optimizer == "lars") return 1;       // times a ratio of about 0.001
  if (optimizer == "asup") return 0.0003;  // momentum makes it ten times as much
  return 0.001;
}

void fill_in(TrainConfig& config) {
  if (config.lr == 0) config.lr = usual_learning_rate(config.optimizer);
  if (config.epochs == 0 && config.steps == 0) config.epochs = 5;
}

}  // namespace

std::vector<std::int64_t> parse_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > 4096) break;
    shape.push_back(size);
    at = stop == end ? end : (*stop == 'x' && stop + 1 < end ? stop + 1 : nullptr);
    if (!at) break;
  }
  require(at == end && shape.size() == 3,
          "synthetic-shape: '{}' is not channels x height x width, like 3x32x32, each 1 … 4096.",
          text);
  return shape;
}

TrainConfig resolve(TrainConfig config) {
  settle_sync(config);
  check_portions(config);
  check_optimizer(config);
  check_schedule(config);
  check_data(config);
  fill_in(config);
  return config;
}

}  // namespace asup::train
