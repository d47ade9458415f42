#include "asup/distribute/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/distribute/ways.h"

namespace asup {
namespace {

struct Common {
  std::string sync = std::string(ways().front()->name);
  std::string algorithm = Strategy().algorithm;
  double timeout = Strategy().timeout.count();
};

// What a program may say of a strategy beside its way's settings.
const std::vector<config::Setting>& rows_of_programs() {
  using config::field;
  static const std::vector<config::Setting> rows{
      {"sync", field<&Common::sync>(), "the way"},
      {"algorithm", field<&Common::algorithm>(), "of collectives; auto: the best for the links"},
      {"timeout",
       field<&Common::timeout>(),
       "seconds after which a worker that does not answer ends the job (default: the job's)",
       {0, 1e6, true, false}}};
  return rows;
}

config::Given given_by(const net::Environment& environment) {
  config::Given given;
  const std::vector<std::string> names = names_of_strategy_settings();
  const auto file = environment("ASUP_STRATEGY");
  if (file && !file->empty()) {
    given.read_toml(*file);
    for (const auto& [name, said] : given.all())
      require(std::find(names.begin(), names.end(), name) != names.end(),
              "{}: is no setting of a strategy{}; a strategy has {}", said.back().where,
              did_you_mean(name, names), fmt::join(names, ", "));
  }
  given.begin_source();
  for (const std::string& name : names) {
    const std::string variable = config::variable_of(name);
    const auto text = environment(variable.c_str());
    if (text && !text->empty()) given.say(name, *text, variable);
  }
  return given;
}

// "sync = server has it, and so has asup".
std::string who_has(std::string_view name) {
  std::vector<std::string_view> who;
  for (const WaySetting& each : settings_of_ways())
    if (each.setting->name == name && (who.empty() || who.back() != each.way->name))
      who.push_back(each.way->name);
  return fmt::format("sync = {}", fmt::join(who, ", "));
}

// Why the way has no use for a setting that it may have: "pace is asp, not ssp".
std::string why_not(Strategy& strategy, std::string_view name) {
  for (const WaySetting& each : settings_of_ways()) {
    if (each.setting->name != name || each.way != &strategy.way() || each.choice.empty()) continue;
    for (const config::Section& section : strategy.sections())
      if (const auto* choice = config::find(section.settings, each.choice))
        return fmt::format("{} is {}, not {}", each.choice, choice->field.text(section.options),
                           each.value);
  }
  return fmt::format("sync = {} has no such setting; {} has", strategy.name(), who_has(name));
}

}  // namespace

Strategy::Strategy() : Strategy(*ways().front()) {}

Strategy Strategy::from(const net::Environment& environment) {
  const config::Given given = given_by(environment);
  Common common;
  given.fill({rows_of_programs(), &common});
  const Way* way = find_way(common.sync);
  const auto names = names_of_ways();
  require(way != nullptr, "{}: '{}' is none of {}{}", given.find("sync")->where, common.sync,
          fmt::join(names, ", "), did_you_mean(common.sync, names));
  Strategy strategy = from(*way, given);
  strategy.algorithm = common.algorithm;
  strategy.timeout = Seconds(common.timeout);
  require_used(given, {strategy});
  return strategy;
}

// What is chosen first may bring settings of its own.
Strategy Strategy::from(const Way& way, const config::Given& given) {
  Strategy strategy(way);
  for (int pass = 0; pass < 2; ++pass)
    for (const config::Section& section : strategy.sections()) given.fill(section);
  strategy.check();
  return strategy;
}

std::vector<std::string> names_of_strategy_settings() {
  std::vector<std::string> names = names_of_way_settings();
  for (const auto& row : rows_of_programs()) names.emplace_back(row.name);
  return names;
}

bool Strategy::has(std::string_view setting) {
  for (const config::Section& section : sections())
    if (config::find(section.settings, setting)) return true;
  return false;
}

void Strategy::check() const { way_->check(options_); }

void Strategy::check_workers(int workers) const {
  const int least = capabilities().least_workers;
  require(workers >= least,
          "sync = {} takes {} workers at least, and there {} {}. Raise workers, or leave sync out.",
          name(), least, workers == 1 ? "is" : "are", workers);
  way_->check_workers(options_, workers);
}

void require_used(const config::Given& given, std::vector<Strategy> strategies) {
  for (const std::string& name : names_of_way_settings()) {
    const auto* said = given.find(name);
    if (!said || std::any_of(strategies.begin(), strategies.end(),
                             [&](Strategy& each) { return each.has(name); }))
      continue;
    throw BadInput(fmt::format("{} = {} has no effect: {}. Leave it out.", name,
                               config::text_of(said->value), why_not(strategies.front(), name)));
  }
}

}  // namespace asup
