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

constexpr std::array<std::string_view, 8> kKeys{"sync",    "pace",      "staleness", "backup",
                                                "buffers", "bucket-mb", "algorithm", "timeout"};

constexpr std::int64_t kUsualStaleness = 4;

// A choice that would do nothing is a mistake that somebody should hear of.
template <typename T>
void unused(std::string_view name, const T& value, const T& usual, const std::string& because) {
  require(value == usual, "{} = {} has no effect: {}. Leave it out.", name, value, because);
}

void settle_pace(Strategy& strategy) {
  if (strategy.pace == "auto") strategy.pace = "bsp";
  constexpr std::array kPaces{"bsp", "ssp", "asp", "adaptive"};
  require(std::find(kPaces.begin(), kPaces.end(), strategy.pace) != kPaces.end(),
          "pace = '{}' is none of {}", strategy.pace, fmt::join(kPaces, ", "));
  require(strategy.staleness >= 0 && strategy.backup >= 0,
          "staleness = {} and backup = {} cannot be below 0", strategy.staleness, strategy.backup);
  const auto because = fmt::format("the pace is {}", strategy.pace);
  if (strategy.pace != "ssp")
    unused<std::int64_t>("staleness", strategy.staleness, 0, because + ", not ssp");
  else if (strategy.staleness == 0)
    strategy.staleness = kUsualStaleness;
  if (strategy.pace != "bsp")
    unused<std::int64_t>("backup", strategy.backup, 0, because + ", not bsp");
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
  if (strategy.needs_servers()) {
    settle_pace(strategy);
    return strategy;
  }
  const auto because = fmt::format("sync = {} has no servers, whose pace it is", sync);
  unused<std::string>("pace", pace, "auto", because);
  unused<std::int64_t>("staleness", staleness, 0, because);
  unused<std::int64_t>("backup", backup, 0, because);
  return strategy;
}

namespace train {

Strategy strategy_of(const TrainConfig& config) {
  const Strategy strategy =
      Strategy{config.sync,    config.pace,      config.staleness, config.backup,
               config.buffers, config.bucket_mb, config.algorithm, Seconds(config.timeout)}
          .settled();
  require(strategy.sync == "allreduce",
          "sync = {} is not available in this version of asup; sync = allreduce is.", config.sync);
  return strategy;
}

}  // namespace train
}  // namespace asup
