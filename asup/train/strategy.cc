#include "asup/train/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "asup/base/error.h"
#include "asup/train/config_draft.h"
#include "asup/train/own_steps_strategy.h"
#include "asup/train/settings.h"
#include "asup/train/strategy_checks.h"

namespace asup {
namespace {

constexpr std::array kKeys = std::to_array<std::string_view>(
    {"sync",           "pace",           "staleness",        "backup",
     "merge",          "elasticity",     "compensation",     "stale-lr",
     "non-finite",     "freeze-pace",    "local-parameters", "evaluate-with",
     "every",          "local-after",    "merge-state",      "graph",
     "outer-lr",       "outer-momentum", "outer-overlap",    "fragments",
     "exchange-dtype", "jitter-ms",      "buffers",          "bucket-mb",
     "algorithm",      "timeout"});

constexpr std::int64_t kUsualStaleness = 4;
constexpr const char* kUsualEvery = "4";
constexpr double kUsualElasticity = 0.9;  // as Zhang et al. (2015) have it

using train::require_one_of;
using train::require_unused;

void settle_pace(Strategy& strategy) {
  if (strategy.pace == "auto") strategy.pace = "bsp";
  require_one_of("pace", strategy.pace, std::array{"bsp", "ssp", "asp", "adaptive"});
  require(strategy.staleness >= 0 && strategy.backup >= 0,
          "staleness = {} and backup = {} cannot be below 0", strategy.staleness, strategy.backup);
  const auto because = fmt::format("the pace is {}", strategy.pace);
  if (strategy.pace != "ssp")
    require_unused("staleness", &Strategy::staleness, strategy, because + ", not ssp");
  else if (strategy.staleness == 0)
    strategy.staleness = kUsualStaleness;
  if (strategy.pace != "bsp")
    require_unused("backup", &Strategy::backup, strategy, because + ", not bsp");
  if (strategy.pace != "adaptive")
    require_unused("freeze-pace", &Strategy::freeze_pace, strategy, because + ", not adaptive");
  if (strategy.pace == "bsp") {
    require_unused("compensation", &Strategy::compensation, strategy,
                   because + ": no gradient is late");
    require_unused("stale-lr", &Strategy::stale_lr, strategy, because + ": no gradient is late");
  }
}

void settle_merge(Strategy& strategy) {
  require_one_of("merge", strategy.merge, std::array{"none", "easgd", "mean"});
  require(strategy.elasticity >= 0 && strategy.elasticity <= 1,
          "elasticity = {} is out of range (allowed: 0 … 1)", strategy.elasticity);
  const auto because = fmt::format("merge is {}", strategy.merge);
  if (strategy.merge != "easgd")
    require_unused("elasticity", &Strategy::elasticity, strategy, because + ", not easgd");
  else if (strategy.elasticity == 0)
    strategy.elasticity = kUsualElasticity;
  if (strategy.merge == "none")
    return require_unused("every", &Strategy::every, strategy,
                          because + ": gradients are exchanged at every step");
  if (strategy.every == Strategy{}.every) strategy.every = kUsualEvery;
  require(strategy.every != "auto" && train::steps_between_exchanges(strategy) > 0,
          "every = auto is of sync = local; a merge through servers takes a number of steps");
  require_unused("compensation", &Strategy::compensation, strategy,
                 because + ": no gradients are pushed");
  require_unused("stale-lr", &Strategy::stale_lr, strategy, because + ": no gradients are pushed");
}

// What servers do, and what others do that there is no need for with servers.
void settle_server(Strategy& strategy) {
  settle_pace(strategy);
  settle_merge(strategy);
  require(strategy.compensation >= 0, "compensation = {} cannot be below 0", strategy.compensation);
  require_one_of("non-finite", strategy.non_finite, std::array{"skip", "fatal", "apply"});
  require_one_of("evaluate-with", strategy.evaluate_with, std::array{"average", "first", "own"});
  require_unused(
      "buffers", &Strategy::buffers, strategy,
      "with servers, statistics stay on their worker; evaluate-with says whose a test takes");
  require_unused("algorithm", &Strategy::algorithm, strategy,
                 "with servers there is no all-reduce");
}

void refuse_server_choices(const Strategy& strategy) {
  const auto because = fmt::format("sync = {} has no servers, whose it is", strategy.sync);
  require_unused("pace", &Strategy::pace, strategy, because);
  require_unused("staleness", &Strategy::staleness, strategy, because);
  require_unused("backup", &Strategy::backup, strategy, because);
  require_unused("merge", &Strategy::merge, strategy, because);
  require_unused("elasticity", &Strategy::elasticity, strategy, because);
  require_unused("compensation", &Strategy::compensation, strategy, because);
  require_unused("stale-lr", &Strategy::stale_lr, strategy, because);
  require_unused("non-finite", &Strategy::non_finite, strategy, because);
  require_unused("freeze-pace", &Strategy::freeze_pace, strategy, because);
  require_unused("local-parameters", &Strategy::local_parameters, strategy, because);
  require_unused("evaluate-with", &Strategy::evaluate_with, strategy, because);
  require_unused("resume_servers", &Strategy::resume_servers, strategy, because);
}

// "bucket-mb" is ASUP_BUCKET_MB.
std::string variable_of(std::string_view key) {
  std::string name = "ASUP_";
  for (const char c : key) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

train::TrainConfig from_file(const std::string& path) {
  train::ConfigDraft draft;
  draft.read_toml(path);
  for (const auto& setting : train::settings()) {
    const bool ours = std::find(kKeys.begin(), kKeys.end(), setting.name) != kKeys.end();
    require(ours || !draft.given(setting.name),
            "{}: {} is a setting of `asup train`, not of a strategy; a strategy has {}", path,
            setting.name, fmt::join(kKeys, ", "));
  }
  return draft.config();
}

}  // namespace

Strategy Strategy::from(const net::Environment& environment) {
  const auto file = environment("ASUP_STRATEGY");
  train::TrainConfig config = file && !file->empty() ? from_file(*file) : train::TrainConfig{};
  for (const std::string_view key : kKeys) {
    const std::string variable = variable_of(key);
    const auto text = environment(variable.c_str());
    if (text && !text->empty()) {
      train::assign_text(config, *train::find_setting(key), *text, variable);
    }
  }
  return train::strategy_of(config);
}

Strategy Strategy::settled() const {
  Strategy strategy = *this;
  if (sync == "asup") {
    require(pace == "auto" || pace == "adaptive",
            "sync = asup is the server at an adaptive pace, and pace = {} another. Leave pace out, "
            "or say sync = server.",
            pace);
    strategy.sync = "server";
    strategy.pace = "adaptive";
  }
  if (strategy.needs_servers())
    settle_server(strategy);
  else
    refuse_server_choices(strategy);
  if (strategy.has_own_steps())
    train::settle_own_steps(strategy);
  else
    train::refuse_own_steps_choices(strategy);
  return strategy;
}

void Strategy::require_available() const {
  require(sync == "allreduce" || needs_servers() || has_own_steps(),
          "sync = {} is not available in this version of asup; allreduce, server, asup, local, "
          "diloco, gossip and adpsgd are.",
          sync);
}

namespace train {

Strategy strategy_of(const TrainConfig& config) {
  Strategy strategy;
  strategy.sync = config.sync;
  strategy.pace = config.pace;
  strategy.staleness = config.staleness;
  strategy.backup = config.backup;
  strategy.merge = config.merge;
  strategy.elasticity = config.elasticity;
  strategy.compensation = config.compensation;
  strategy.stale_lr = config.stale_lr;
  strategy.non_finite = config.non_finite;
  strategy.freeze_pace = config.freeze_pace;
  strategy.local_parameters = config.local_parameters;
  strategy.evaluate_with = config.evaluate_with;
  strategy.every = config.every;
  strategy.local_after = config.local_after;
  strategy.merge_state = config.merge_state;
  strategy.graph = config.graph;
  strategy.outer_lr = config.outer_lr;
  strategy.outer_momentum = config.outer_momentum;
  strategy.outer_overlap = config.outer_overlap;
  strategy.fragments = config.fragments;
  strategy.exchange_dtype = config.exchange_dtype;
  strategy.jitter_ms = config.jitter_ms;
  strategy.round_seconds = config.round_seconds;
  strategy.merge_deadline = config.merge_deadline;
  strategy.buffers = config.buffers;
  strategy.bucket_mb = config.bucket_mb;
  strategy.algorithm = config.algorithm;
  strategy.timeout = Seconds(config.timeout);
  strategy.require_available();
  return strategy.settled();
}

}  // namespace train
}  // namespace asup
