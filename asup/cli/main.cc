// The program `asup`. Exit status: 0 done, 1 the job failed and the last line says why, 2 bad
// input.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/cli/command.h"
#include "asup/cli/usage.h"
#include "asup/net/membership/failure_note.h"

namespace asup::cli {
namespace {

constexpr int kBadInput = 2;

const std::vector<Example> kExamples{
    {"asup train --data synthetic --steps 50", "train a small network, with two workers"},
    {"asup run -n 4 -- ./program", "start a program of your own as four ranks"},
    {"asup bench collective --quick", "measure all-reduce on this host"}};

constexpr const char* kFooter = R"(
asup COMMAND --help explains a command. ASUP_LOG_LEVEL=info shows more of what happens inside.)";

// Files opened later must not get the numbers of the standard streams where somebody closed those.
void open_standard_streams() {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR))
    if (fd > STDERR_FILENO) {
      close(fd);
      return;
    }
}

// Takes what stands after "--" off the arguments; the parser sees the rest, last word first.
ProgramArguments take_program(std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  ProgramArguments program{dashes != arguments.end(), {}};
  if (program.given) program.words.assign(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return program;
}

// Before what else is said at the end of a command's help.
void add_examples(const Command& command) {
  if (!command.examples.empty())
    command.app->footer(examples_block(command.examples) + command.app->get_footer());
  for (const Command& inner : command.commands) add_examples(inner);
}

// `dry`: checks what it would do instead.
int call(const CLI::App& app, const std::vector<Command>& commands, bool dry) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    if (!dry) return command.run();
    if (command.check) command.check();
    return 0;
  }
  std::fputs(app.help().c_str(), stderr);
  return kBadInput;
}

// `where` begins the message about bad input.
int run(std::vector<std::string> arguments, bool dry = false, const std::string& where = "") {
  CLI::App app("Adaptive Synchronization, Unified Parallel training", "asup");
  set_usage(app, "Usage: asup COMMAND [flags]");
  app.set_version_flag("--version", version_text, "Print versions and exit");
  app.set_help_flag("-h,--help", "Print this and exit");
  const ProgramArguments program = take_program(arguments);
  Command train = add_train_command(app);
  train.check = [&train] { check_train_settings(*train.app); };
  const std::vector<Command> commands = {
      train,
      add_run_command(app, program),
      add_report_command(app),
      add_eval_command(app),
      add_export_command(app),
      add_agent_command(app),
      add_server_command(app),
      add_bench_command(app, arguments),
      add_plan_command(app),
      add_tune_command(app, arguments),
      add_version_command(app),
  };
  for (const Command& command : commands)
    if (!command.app->get_group().empty()) command.app->group("Commands");
  app.footer(kFooter);
  add_examples({&app, {}, {}, kExamples, commands});
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
    const bool takes_program = !program.given || app.got_subcommand("run");
    require(takes_program, "only asup run takes a program after --");
    return call(app, commands, dry);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    print_last_line(where + called_name(app), explain(app, error));
    return kBadInput;
  } catch (const std::exception& error) {
    const net::FailureNote note = net::note_of(error);
    // A launcher that listens tells it, once.
    if (!net::leave_note(note)) print_last_line(where + called_name(app), error.what());
    return note.exit_status();
  }
}

// Each line of standard input is a command line, with tabs between its words.
int dry_run_lines() {
  int status = 0, number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
    const int one = run(words, true, fmt::format("line {}: ", ++number));
    if (one != 0) status = one;
  }
  return status;
}

// asup --dry-run COMMAND …: says whether it could be run, and runs nothing. For tests, which check
// many command lines by `asup --dry-run -`.
int dry_run(std::vector<std::string> arguments) {
  arguments.erase(arguments.begin());
  if (arguments == std::vector<std::string>{"-"}) return dry_run_lines();
  return run(std::move(arguments), true);
}

}  // namespace
}  // namespace asup::cli

int main(int argc, char** argv) {
  asup::cli::open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has seen enough, as `| head`, ends no training
  asup::set_up_log("asup");
  const std::vector<std::string> arguments{argv + 1, argv + argc};
  const bool dry = !arguments.empty() && arguments.front() == "--dry-run";
  const int status = dry ? asup::cli::dry_run(arguments) : asup::cli::run(arguments);
  // Nothing is left but to take libtorch's tables of operators down, for a tenth of a second.
  std::cout.flush();
  std::fflush(nullptr);
  std::quick_exit(status);
}
