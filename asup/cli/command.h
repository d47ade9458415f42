// A command of the program: one file each, which adds its flags to the parser and says what to do
// when it is called. Runs on the main thread, before the program has any other.
//
// A command returns the exit status: 0 done, 1 the job failed, 2 bad input. It may throw BadInput
// or another Error instead; main prints the message as the last line and turns it into 2 or 1.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "asup/cli/help.h"
namespace asup::config {
struct Setting;
}

namespace asup::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
  // For --dry-run, after parsing: throws BadInput where the flags' values cannot be. Starts nothing
  // and looks at no file. Empty: parsing is all there is to check.
  std::function<void()> check{};
  std::vector<Example> examples{};  // for its help; a test gives each to the parser
  std::vector<Command> commands{};  // inside it: `asup bench collective`
};

// What stands after "--" on the command line; `given` tells "--" with nothing behind it.
struct ProgramArguments {
  bool given = false;
  std::vector<std::string> words;
};

Command add_train_command(CLI::App& app);
// Its check(): settings, unless files say more of them.
void check_train_settings(const CLI::App& train);
// What a setting's flag, which is on the command line, says.
std::string text_given(const CLI::Option& option, const config::Setting& setting);
Command add_report_command(CLI::App& app);
Command add_export_command(CLI::App& app);
Command add_eval_command(CLI::App& app);
Command add_run_command(CLI::App& app, const ProgramArguments& program);
Command add_agent_command(CLI::App& app);
Command add_server_command(CLI::App& app);
// `arguments` are those of the program: the benchmark starts itself again as each of its ranks.
Command add_bench_command(CLI::App& app, const std::vector<std::string>& arguments);

Command add_plan_command(CLI::App& app);
// Starts itself again as each of its ranks, too.
Command add_tune_command(CLI::App& app, const std::vector<std::string>& arguments);

// What `asup --version` prints, and so does this command.
std::string version_text();
Command add_version_command(CLI::App& app);

}  // namespace asup::cli
