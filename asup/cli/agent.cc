// asup agent: what `asup run --hosts` starts on the other hosts. Not for people.
#include "asup/launch/agent.h"

#include <unistd.h>

#include "asup/base/error.h"
#include "asup/cli/command.h"

namespace asup::cli {

Command add_agent_command(CLI::App& app) {
  CLI::App* agent = app.add_subcommand("agent", "Start this host's ranks, for `asup run --hosts`");
  agent->group("");  // not in the list of commands
  return {agent, [] {
            require(isatty(STDIN_FILENO) == 0,
                    "asup agent is started by asup run --hosts, which tells it what to do");
            return launch::run_agent(STDIN_FILENO, STDOUT_FILENO);
          }};
}

}  // namespace asup::cli
