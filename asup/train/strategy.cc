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

constexpr std::array<std::string_view, 5> kKeys{"sync", "buffers", "bucket-mb", "algorithm",
                                                "timeout"};

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

namespace train {

Strategy strategy_of(const TrainConfig& config) {
  require(config.sync == "allreduce",
          "sync = {} is not available in this version of asup; sync = allreduce is.", config.sync);
  return {config.sync, config.buffers, config.bucket_mb, config.algorithm, Seconds(config.timeout)};
}

}  // namespace train
}  // namespace asup
