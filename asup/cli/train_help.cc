#include "asup/cli/train_help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <set>

#include "asup/base/suggest.h"
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
  std::string page = fmt::format("{}: {}\n\n", way.name, way.summary);
  std::set<std::string_view> told;
  for (const WaySetting& each : settings_of_ways())
    if (each.way == &way && told.insert(each.setting->name).second)
      page += row_of(way, *each.setting);
  return page + fmt::format("\nexample:\n  asup train {}\n", way.example);
}

std::string list_of_ways() {
  std::string list = "\nWays (--sync WAY, --then WAY); --help WAY shows the settings of one:\n";
  for (const Way* way : ways()) list += help_row(std::string(way->name), std::string(way->summary));
  return list;
}

// A CLI::Success with its text printed ends the program as --help does.
[[noreturn]] void show(const CLI::App& command, const std::string& topic) {
  if (topic.empty()) {
    std::string text = command.help();
    const auto footer = text.find("\nexamples:");
    text.insert(footer == text.npos ? text.size() : footer, list_of_ways());
    std::fputs(text.c_str(), stdout);
    throw CLI::Success();
  }
  const Way* way = find_way(topic);
  const auto names = names_of_ways();
  if (!way)
    throw CLI::ValidationError(fmt::format("--help {}: there is {}{}", topic,
                                           fmt::join(names, ", "), did_you_mean(topic, names)));
  std::fputs(page_of(*way).c_str(), stdout);
  throw CLI::Success();
}

}  // namespace

void add_train_help(CLI::App& command) {
  command.set_help_flag();
  command
      .add_option_function<std::vector<std::string>>(
          "-h,--help",
          [&command](const std::vector<std::string>& topics) {
            show(command, topics.empty() || topics.front() == "{}" ? "" : topics.front());
          },
          "Print this, or all of one way, and exit")
      ->type_name("WAY")
      ->expected(0, 1)
      ->trigger_on_parse();
}

}  // namespace asup::cli
