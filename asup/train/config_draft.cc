#include "asup/train/config_draft.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <climits>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/suggest.h"
#include "asup/train/phases.h"
#include "asup/train/strategy.h"

namespace asup::train {
namespace {

constexpr int kFlags = INT_MAX;

toml::table parse(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw BadInput(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

Value value_of(const toml::node& node, const std::string& where) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  throw BadInput(fmt::format(
      "{}: a text, a number, true or false is wanted here, not a table, list or date", where));
}

}  // namespace

void ConfigDraft::read_toml(const std::string& path) {
  ++files_;
  for (const auto& [key, node] : parse(path)) {
    const std::string name(key.str());
    const auto where = fmt::format("{}:{}: {}", path, key.source().begin.line, name);
    const Setting* setting = find_setting(name);
    if (!setting) {
      throw BadInput(fmt::format("{}: there is no such setting{}", where,
                                 did_you_mean(name, setting_names())));
    }
    const TrainConfig before = config_;
    assign(config_, *setting, value_of(node, where), where);
    note(*setting, before, files_, where);
  }
}

void ConfigDraft::set_flag(const Setting& setting, const std::string& text) {
  const auto where = fmt::format("--{}", setting.name);
  const TrainConfig before = config_;
  assign_text(config_, setting, text, where);
  note(setting, before, kFlags, where);
}

void ConfigDraft::note(const Setting& setting, const TrainConfig& before, int source,
                       const std::string& where) {
  given_[std::string(setting.name)] = source;
  if (setting.name == "epochs" || setting.name == "steps") settle_length(setting, source, where);
  if (config_.then != before.then && !has_phases(config_)) forget({"at"}, source);
  if (config_.sync != before.sync)
    forget_way(before, source);
  else if (needs_servers(config_) != needs_servers(before))
    forget({"servers"}, source);
}

// Steps and epochs are two ways to say one thing: a later source's way replaces an earlier one's.
void ConfigDraft::settle_length(const Setting& setting, int source, const std::string& where) {
  const bool is_epochs = setting.name == "epochs";
  const std::int64_t mine = is_epochs ? config_.epochs : config_.steps;
  std::int64_t& other = is_epochs ? config_.steps : config_.epochs;
  if (mine == 0 || other == 0) return;
  require(given_[is_epochs ? "steps" : "epochs"] != source,
          "{}: epochs and steps are two ways to say how long the run is: give one of them", where);
  other = 0;
}

// What earlier sources said of the pace, of exchanges of models, or of servers where there are none
// any more, belongs to the way of staying in step that they chose.
void ConfigDraft::forget_way(const TrainConfig& before, int source) {
  const bool had_servers = needs_servers(before);
  const bool has_servers = Strategy{.sync = config_.sync}.needs_servers();
  std::vector<std::string_view> names{
      "pace",         "staleness",      "backup",      "merge",          "elasticity",
      "compensation", "stale-lr",       "freeze-pace", "every",          "local-after",
      "merge-state",  "graph",          "outer-lr",    "outer-momentum", "outer-overlap",
      "fragments",    "exchange-dtype", "jitter-ms",   "round-seconds",  "merge-deadline",
      "balance",      "then",           "at"};
  if (had_servers != has_servers)
    names.insert(names.end(), {"servers", "non-finite", "local-parameters", "evaluate-with",
                               "buffers", "algorithm"});
  forget(names, source);
}

void ConfigDraft::forget(const std::vector<std::string_view>& names, int source) {
  for (const std::string_view name : names) {
    const auto found = given_.find(name);
    if (found == given_.end() || found->second >= source) continue;
    const Setting& setting = *find_setting(name);
    assign_text(config_, setting, text_of(TrainConfig{}, setting), name);
    given_.erase(found);
  }
}

}  // namespace asup::train
