// All settings of a configuration: those of TrainConfig, and those of its strategies. From them
// follow the flags of `asup train`, the keys of a TOML file and a run folder's config.toml.
//
// A setting is added by one member in config.h and one row in settings_table.cc; a strategy's, in
// the file of its way. Values only; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "asup/config/given.h"
#include "asup/config/setting.h"
#include "asup/train/config.h"

namespace asup::train {

// The rows of TrainConfig.
std::span<const config::Setting> settings();
// A setting of TrainConfig or of any way; null where there is none of this name.
const config::Setting* find_setting(std::string_view name);
// Of all, each once.
std::vector<std::string> setting_names();

// A choice that a later source changes takes with it what earlier sources said of the one before:
// settings of another way, or of another pace.
void forget_changed_choices(config::Given& given);

// The configuration that was said. Throws BadInput: names no setting (suggests the nearest), has a
// value that is not allowed, or one that has no effect with the strategies that were chosen.
TrainConfig config_from(config::Given given);

// One setting of a configuration, as it is.
struct SettingValue {
  const config::Setting* setting = nullptr;
  std::string_view group;  // heading
  std::string text;        // as on a command line
  std::string toml;
};
// Those of TrainConfig, then those of its strategies. A name that both strategies have with
// different values was not said, and is left out.
std::vector<SettingValue> values_of(const TrainConfig& config);

// "--name=value" of every setting of TrainConfig that is not as usual, and of all of its
// strategies.
std::vector<std::string> to_flags(const TrainConfig& config);

// The whole of config.toml: every setting with its help, under its group's heading.
std::string to_toml(const TrainConfig& config);

// What says in config.toml that this version wrote it.
inline constexpr std::string_view kFormatKey = "format";
inline constexpr std::int64_t kFormat = 3;

}  // namespace asup::train
