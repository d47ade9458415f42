// What `asup --dry-run train` checks.
#include "asup/cli/command.h"
#include "asup/config/given.h"
#include "asup/train/resolve.h"
#include "asup/train/settings.h"

namespace asup::cli {

std::string text_given(const CLI::Option& option, const config::Setting& setting) {
  const CLI::results_t& results = option.results();
  const bool alone = results.empty() || results.back().empty() || results.back() == "{}";
  return alone && setting.may_stand_alone() ? "on" : results.back();
}

void check_train_settings(const CLI::App& command) {
  // A file says more, perhaps which strategy it is, and files are not looked at.
  if (command.count("--config") > 0 || command.count("--resume") > 0) return;
  config::Given given;
  given.begin_source();
  for (const std::string& name : train::setting_names()) {
    const CLI::Option* option = command.get_option("--" + name);
    if (option->count() > 0)
      given.say(name, text_given(*option, *train::find_setting(name)), "--" + name);
  }
  train::resolve(train::config_from(given));
}

}  // namespace asup::cli
