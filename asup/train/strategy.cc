#include "asup/train/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "asup/base/error.h"
#include "asup/train/config_draft.h"
#include "asup/train/settings.h"

namespace asup {
namespace {

constexpr std::array<std::string_view, 17> kKeys{
    "sync",          "pace",         "staleness", "backup",     "merge",       "every",
    "elasticity",    "compensation", "stale-lr",  "non-finite", "freeze-pace", "local-parameters",
    "evaluate-with", "buffers",      "bucket-mb", "algorithm",  "timeout"};

constexpr std::int64_t kUsualStaleness = 4;
constexpr std::int64_t kUsualEvery = 4;
constexpr double kUsualElasticity = 0.9;  // as Zhang et al. (2015) have it

// A choice that would do nothing is a mistake that somebody should hear of.
template <typename T>
void unused(std::string_view name, T Strategy::*member, const Strategy& strategy,
            const std::string& because) {
  require(strategy.*member == Strategy{}.*member, "{} = {} has no effect: {}. Leave it out.", name,
          strategy.*member, because);
}

template <std::size_t count>
void require_one_of(std::string_view name, const std::string& value,
                    const std::array<const char*, count>& values) {
  require(std::find(values.begin(), values.end(), value) != values.end(), "{} = '{}' is none of {}",
          name, value, fmt::join(values, ", "));
}

void settle_pace(Strategy& strategy) {
  if (strategy.pace == "auto") strategy.pace = "bsp";
  require_one_of("pace", strategy.pace, std::array{"bsp", "ssp", "asp", "adaptive"});
  require(strategy.staleness >= 0 && strategy.backup >= 0,
          "staleness = {} and backup = {} cannot be below 0", strategy.staleness, strategy.backup);
  const auto because = fmt::format("the pace is {}", strategy.pace);
  if (strategy.pace != "ssp")
    unused("staleness", &Strategy::staleness, strategy, because + ", not ssp");
  else if (strategy.staleness == 0)
    strategy.staleness = kUsualStaleness;
  if (strategy.pace != "bsp") unused("backup", &Strategy::backup, strategy, because + ", not bsp");
  if (strategy.pace != "adaptive")
    unused("freeze-pace", &Strategy::freeze_pace, strategy, because + ", not adaptive");
  if (strategy.pace == "bsp") {
    unused("compensation", &Strategy::compensation, strategy, because + ": no gradient is late");
    unused("stale-lr", &Strategy::stale_lr, strategy, because + ": no gradient is late");
  }
}

void settle_merge(Strategy& strategy) {
  require_one_of("merge", strategy.merge, std::array{"none", "easgd", "mean"});
  require(strategy.every >= 0, "every = {} cannot be below 0", strategy.every);
  require(strategy.elasticity >= 0 && strategy.elasticity <= 1,
          "elasticity = {} is out of range (allowed: 0 … 1)", strategy.elasticity);
  const auto because = fmt::format("merge is {}", strategy.merge);
  if (strategy.merge != "easgd")
    unused("elasticity", &Strategy::elasticity, strategy, because + ", not easgd");
  else if (strategy.elasticity == 0)
    strategy.elasticity = kUsualElasticity;
  if (strategy.merge == "none")
    return unused("every", &Strategy::every, strategy,
                  because + ": gradients are exchanged at every step");
  if (strategy.every == 0) strategy.every = kUsualEvery;
  unused("compensation", &Strategy::compensation, strategy, because + ": no gradients are pushed");
  unused("stale-lr", &Strategy::stale_lr, strategy, because + ": no gradients are pushed");
}

// What servers do, and what others do that there is no need for with servers.
void settle_server(Strategy& strategy) {
  settle_pace(strategy);
  settle_merge(strategy);
  require(strategy.compensation >= 0, "compensation = {} cannot be below 0", strategy.compensation);
  require_one_of("non-finite", strategy.non_finite, std::array{"skip", "fatal", "apply"});
  require_one_of("evaluate-with", strategy.evaluate_with, std::array{"average", "first", "own"});
  unused("buffers", &Strategy::buffers, strategy,
         "with servers, statistics stay on their worker; evaluate-with says whose a test takes");
  unused("algorithm", &Strategy::algorithm, strategy, "with servers there is no all-reduce");
}

void refuse_server_choices(const Strategy& strategy) {
  const auto because = fmt::format("sync = {} has no servers, whose it is", strategy.sync);
  unused("pace", &Strategy::pace, strategy, because);
  unused("staleness", &Strategy::staleness, strategy, because);
  unused("backup", &Strategy::backup, strategy, because);
  unused("merge", &Strategy::merge, strategy, because);
  unused("every", &Strategy::every, strategy, because);
  unused("elasticity", &Strategy::elasticity, strategy, because);
  unused("compensation", &Strategy::compensation, strategy, because);
  unused("stale-lr", &Strategy::stale_lr, strategy, because);
  unused("non-finite", &Strategy::non_finite, strategy, because);
  unused("freeze-pace", &Strategy::freeze_pace, strategy, because);
  unused("local-parameters", &Strategy::local_parameters, strategy, because);
  unused("evaluate-with", &Strategy::evaluate_with, strategy, because);
  unused("resume_servers", &Strategy::resume_servers, strategy, because);
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
  return strategy;
}

namespace train {

Strategy strategy_of(const TrainConfig& config) {
  Strategy strategy;
  strategy.sync = config.sync;
  strategy.pace = config.pace;
  strategy.staleness = config.staleness;
  strategy.backup = config.backup;
  strategy.merge = config.merge;
  strategy.every = config.every;
  strategy.elasticity = config.elasticity;
  strategy.compensation = config.compensation;
  strategy.stale_lr = config.stale_lr;
  strategy.non_finite = config.non_finite;
  strategy.freeze_pace = config.freeze_pace;
  strategy.local_parameters = config.local_parameters;
  strategy.evaluate_with = config.evaluate_with;
  strategy.buffers = config.buffers;
  strategy.bucket_mb = config.bucket_mb;
  strategy.algorithm = config.algorithm;
  strategy.timeout = Seconds(config.timeout);
  strategy = strategy.settled();
  require(strategy.sync == "allreduce" || strategy.sync == "server",
          "sync = {} is not available in this version of asup; allreduce, server and asup are.",
          config.sync);
  return strategy;
}

}  // namespace train
}  // namespace asup
