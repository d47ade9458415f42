#include "asup/train/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "asup/base/error.h"
#include "asup/base/numbers.h"
#include "asup/base/suggest.h"
#include "asup/config/field_or.h"
#include "asup/distribute/ways.h"
#include "asup/train/pipeline_settings.h"

namespace asup::train {
namespace {

using config::Given;
using config::Setting;

void check_names(const Given& given) {
  const std::vector<std::string> names = setting_names();
  for (const auto& [name, said] : given.all())
    require(find_setting(name) != nullptr, "{}: there is no such setting{}", said.back().where,
            did_you_mean(name, names));
}

// What a file that another version wrote says may have another meaning.
void check_format(const Given& given) {
  const auto* format = given.find(kFormatKey);
  require(
      !format || config::text_of(format->value) == std::to_string(kFormat),
      "{} = {}: another version of asup wrote this file; this one writes {}. Take that line out "
      "and look at what is then refused.",
      format ? format->where : "", format ? config::text_of(format->value) : "", kFormat);
}

bool has_servers(const std::string& name) {
  const Way* way = find_way(name);
  return way && way->capabilities(way->usual()).needs_servers;
}

// Servers that an earlier source wanted, or did not want, for another way.
void forget_servers(Given& given, std::string_view choice, const std::string& usual) {
  const int source = given.changed_by(choice, usual);
  if (source == 0) return;
  const std::string now = config::text_of(given.find(choice)->value);
  if (has_servers(now) != has_servers(given.text_before(choice, source, usual)))
    given.forget(std::vector<std::string>{"servers"}, source);
}

// A run without a pipeline has no use for what was said of one, nor another pipeline for where the
// one before was cut.
void forget_pipeline(Given& given) {
  const auto* pipeline = given.find("pipeline");
  if (pipeline && config::text_of(pipeline->value) == "1")
    given.forget(pipeline_details(), pipeline->source);
  const int source =
      std::max(given.changed_by("pipeline", "1"),
               given.changed_by("pipeline-schedule", TrainConfig().pipeline_schedule));
  given.forget(std::vector<std::string>{"pipeline-chunks", "pipeline-cut"}, source);
}

// Steps and epochs are two ways to say one thing: a later source's way replaces an earlier one's.
void choose_length(Given& given) {
  const auto *epochs = given.find("epochs"), *steps = given.find("steps");
  const auto gives_length = [](const Given::Saying* said) {
    return said && config::text_of(said->value) != config::kAuto;
  };
  if (!gives_length(epochs) || !gives_length(steps)) return;
  require(epochs->source != steps->source,
          "{}: epochs and steps are two ways to say how long the run is: give one of them",
          steps->where);
  const bool earlier_epochs = epochs->source < steps->source;
  const int later = std::max(epochs->source, steps->source);
  given.forget(std::vector<std::string>{earlier_epochs ? "epochs" : "steps"}, later);
}

// What an earlier source said of a way that a later one has replaced, by `sync` or by `then`.
void forget_unused(Given& given, std::vector<Strategy>& strategies) {
  const int changed = std::max(given.changed_by("sync", TrainConfig().strategy.name()),
                               given.changed_by("then", "none"));
  std::vector<std::string> unused;
  for (const std::string& name : names_of_way_settings())
    if (std::none_of(strategies.begin(), strategies.end(),
                     [&](Strategy& each) { return each.has(name); }))
      unused.push_back(name);
  given.forget(unused, changed);
}

Strategy strategy_from(const Way& way, const Given& given, const TrainConfig& config) {
  Strategy strategy = Strategy::from(way, given);
  strategy.algorithm = config.algorithm;
  strategy.timeout = Seconds(config.timeout);
  return strategy;
}

void add_values(std::vector<SettingValue>& values, const config::Section& section,
                std::string_view group) {
  for (const Setting& setting : section.settings)
    values.push_back({&setting, setting.group.empty() ? group : setting.group,
                      setting.field.text(section.options), setting.field.toml(section.options)});
}

// Names that are there with different values.
std::set<std::string_view> ambiguous(const std::vector<SettingValue>& values) {
  std::set<std::string_view> names;
  for (const auto& a : values)
    for (const auto& b : values)
      if (a.setting->name == b.setting->name && a.text != b.text) names.insert(a.setting->name);
  return names;
}

}  // namespace

std::optional<Every> Every::from_text(std::string_view text) {
  if (text == "epoch") return Every{Kind::epoch};
  if (text == "never") return Every{Kind::never};
  const auto steps = number_in<std::int64_t>(text);
  if (!steps || *steps < 1 || *steps > 1'000'000'000) return std::nullopt;
  return Every{Kind::steps, *steps};
}

std::string Every::to_text() const {
  if (kind == Kind::steps) return fmt::format("{}", steps);
  return kind == Kind::epoch ? "epoch" : "never";
}

std::optional<LivePage> LivePage::from_text(std::string_view text) {
  if (text == "off") return LivePage{};
  LivePage page{true};
  if (text == "on") return page;
  const std::size_t colon = text.rfind(':');
  const auto port = number_in<std::int64_t>(text.substr(colon == text.npos ? 0 : colon + 1));
  if (!port || *port < 1 || *port > 65535 || colon == 0) return std::nullopt;
  page.port = static_cast<std::uint16_t>(*port);
  if (colon == text.npos) return page;
  page.host = text.substr(0, colon);
  if (page.host.starts_with('[') && page.host.ends_with(']'))  // of an IPv6 address
    page.host = page.host.substr(1, page.host.size() - 2);
  return page;
}

std::string LivePage::to_text() const {
  if (!on) return "off";
  if (port == 0) return "on";
  if (host == LivePage{}.host) return fmt::format("{}", port);
  const bool ipv6 = host.find(':') != host.npos;
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::optional<TimelineSetting> TimelineSetting::from_text(std::string_view text) {
  if (text != "on" && text != "off" && text != "torch") return std::nullopt;
  return TimelineSetting{text != "off", text == "torch"};
}

std::string TimelineSetting::to_text() const { return operators ? "torch" : on ? "on" : "off"; }

std::optional<TimelineSteps> TimelineSteps::from_text(std::string_view text) {
  if (text == "all") return TimelineSteps{};
  const std::size_t dash = text.find('-');
  if (dash == text.npos) return std::nullopt;
  const auto first = number_in<std::int64_t>(text.substr(0, dash));
  const auto last = number_in<std::int64_t>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return TimelineSteps{{*first, *last}};
}

std::string TimelineSteps::to_text() const {
  return *this == TimelineSteps{} ? "all" : fmt::format("{}-{}", range.first, range.last);
}

const Setting* find_setting(std::string_view name) {
  if (const Setting* own = config::find(settings(), name)) return own;
  for (const WaySetting& each : settings_of_ways())
    if (each.setting->name == name) return each.setting;
  return nullptr;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& row : settings()) names.emplace_back(row.name);
  for (std::string& name : names_of_way_settings()) names.push_back(std::move(name));
  return names;
}

void forget_changed_choices(Given& given) {
  const std::string usual = TrainConfig().strategy.name();
  forget_servers(given, "sync", usual);
  forget_servers(given, "then", "none");
  if (const int source = given.changed_by("sync", usual)) {
    std::vector<std::string> names = names_of_way_settings();
    names.insert(names.end(), {"then", "at", "balance"});
    given.forget(names, source);
  }
  if (const auto* then = given.find("then"); then && config::text_of(then->value) == "none")
    given.forget(std::vector<std::string>{"at"}, then->source);
  forget_pipeline(given);
  for (const WaySetting& each : settings_of_ways()) {
    const int source = each.choice.empty() ? 0 : given.changed_by(each.choice, "");
    if (source > 0) given.forget(std::vector{std::string(each.setting->name)}, source);
  }
}

TrainConfig config_from(Given given) {
  check_format(given);
  given.forget(std::vector{std::string(kFormatKey)}, given.sources() + 1);
  check_names(given);
  forget_changed_choices(given);
  choose_length(given);
  TrainConfig config;
  given.fill({settings(), &config});
  config.strategy = strategy_from(config.strategy.way(), given, config);
  std::vector<Strategy> strategies{config.strategy};
  if (config.then) {
    config.then = strategy_from(config.then->way(), given, config);
    strategies.push_back(*config.then);
  }
  forget_unused(given, strategies);
  require_used(given, strategies);
  return config;
}

std::vector<SettingValue> values_of(const TrainConfig& given) {
  TrainConfig config = given;
  std::vector<SettingValue> values, of_strategies;
  add_values(values, {settings(), &config}, "");
  for (const config::Section& section : config.strategy.sections())
    add_values(of_strategies, section, config.strategy.way().name);
  if (config.then)
    for (const config::Section& section : config.then->sections())
      add_values(of_strategies, section, config.then->way().name);
  std::set<std::string_view> left_out = ambiguous(of_strategies);
  for (auto& value : of_strategies)
    if (left_out.insert(value.setting->name).second) values.push_back(std::move(value));
  return values;
}

std::vector<std::string> to_flags(const TrainConfig& config) {
  const TrainConfig usual;
  std::vector<std::string> flags;
  for (const SettingValue& value : values_of(config)) {
    const Setting* own = config::find(settings(), value.setting->name);
    if (value.text.empty() || (own && value.text == own->field.text(&usual))) continue;
    flags.push_back(fmt::format("--{}={}", value.setting->name, value.text));
  }
  return flags;
}

std::string to_toml(const TrainConfig& config) {
  std::string out = "# The settings of this run. Run it again with: asup train --config FILE\n";
  out += fmt::format("{} = {}  # of this file\n", kFormatKey, kFormat);
  std::string_view group;
  for (const SettingValue& value : values_of(config)) {
    if (value.setting->scope == config::Scope::call) continue;
    if (value.group != group) out += fmt::format("\n# {}\n", value.group);
    group = value.group;
    out += fmt::format("{} = {}  # {}\n", value.setting->name, value.toml, value.setting->help);
  }
  return out;
}

}  // namespace asup::train
