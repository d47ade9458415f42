// The one table behind `asup train`'s flags, the keys of a TOML file and a run folder's
// config.toml.
//
// A setting is added by one member in config.h and one row in settings.cc. Values only; safe from
// any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "asup/train/config.h"

namespace asup::train {

// A value as a file or a command line gives it.
using Value = std::variant<std::string, std::int64_t, double, bool>;

// Allowed numbers. With `above`, `least` itself is not allowed; with `below`, `most` is not.
struct Range {
  double least = 0;
  double most = 0;
  bool above = false;
  bool below = false;

  bool holds(double value) const;
  std::string describe() const;  // "1 … 4096", "above 0, up to 1000"
};

// What a setting belongs to.
enum class Scope : std::uint8_t {
  run,    // the run
  fixed,  // the run, and a resumed run keeps it: its checkpoint would make no sense otherwise
  call    // this call of the command: not part of config.toml
};

struct Setting {
  using Field = std::variant<std::string TrainConfig::*, std::int64_t TrainConfig::*,
                             double TrainConfig::*, bool TrainConfig::*, Every TrainConfig::*>;

  std::string_view name;   // of the flag (with --) and the key
  std::string_view group;  // heading in the help and in config.toml
  Field field;
  std::string_view help;
  Range range{};  // of numbers, of the steps of an Every, and of a text that may be a number
  std::vector<std::string_view> choices{};  // of texts; empty: any
  Scope scope = Scope::run;

  bool is_flag() const { return std::holds_alternative<bool TrainConfig::*>(field); }
  // Whether a text may be a number, beside its choices.
  bool takes_numbers() const { return range.most > 0; }
  std::string type_name() const;  // "NUMBER", "sgd|adam", …, for the help
};

std::span<const Setting> settings();
const Setting* find_setting(std::string_view name);
std::vector<std::string> setting_names();

// Sets one member. `where` opens messages: "--lr", "job.toml:3: lr". Throws BadInput that says the
// value, what is wrong with it and what is allowed.
void assign(TrainConfig& config, const Setting& setting, const Value& value,
            std::string_view where);

// The same from a command line's text.
void assign_text(TrainConfig& config, const Setting& setting, const std::string& text,
                 std::string_view where);

// As on a command line ("0.1", "true", "epoch"), and as in TOML ("\"epoch\"").
std::string text_of(const TrainConfig& config, const Setting& setting);
std::string toml_of(const TrainConfig& config, const Setting& setting);

// "--name=value" of every setting that is not as in TrainConfig{}.
std::vector<std::string> to_flags(const TrainConfig& config);

// The whole of config.toml: every setting with its help, under its group's heading.
std::string to_toml(const TrainConfig& config);

}  // namespace asup::train
