#include "asup/cli/train_help.h"

#include <fmt/format.h>

#include <set>

#include "asup/cli/usage.h"
#include "asup/distribute/ways.h"
#include "asup/train/settings.h"

namespace asup::cli {
namespace {

std::string usual_of(const Way& way, std::string_view name) {
  Strategy strategy(way);
  for (const config::Section& section : strategy.sections())
    if (const auto* setting = config::find(section.settings, name))
      return setting->field.text(section.options);
  return "";
}

std::string row_of(const Way& way, const config::Setting& setting) {
  const std::string usual = usual_of(way, setting.name);
  const std::string form = setting.is_flag() ? "" : " " + setting.form();
  return help_row(fmt::format("--{}{}{}", setting.name, form,
                              setting.is_flag() || usual.empty() ? "" : "=" + usual),
                  std::string(setting.help));
}

std::string page_of(const Way& way) {
  std::string page = fmt::format("--sync {}:\n  {}\n\n", way.name, way.summary);
  std::set<std::string_view> told;
  for (const WaySetting& each : settings_of_ways())
    if (each.way == &way && told.insert(each.setting->name).second)
      page += row_of(way, *each.setting);
  return page + examples_block({{fmt::format("asup train {}", way.example)}});
}

std::string list_of_ways() {
  std::string list = "Ways, for --sync:\n";
  for (const Way* way : ways()) list += help_row(std::string(way->name), std::string(way->summary));
  return list;
}

}  // namespace

HelpOptions train_help() {
  HelpOptions help;
  for (const auto& setting : train::settings())
    if (setting.common) help.common.push_back(fmt::format("--{}", setting.name));
  help.list = list_of_ways();
  for (const Way* way : ways())
    help.pages.push_back({std::string(way->name), std::string(way->group), page_of(*way)});
  help.page_word = "WAY";
  return help;
}

}  // namespace asup::cli
