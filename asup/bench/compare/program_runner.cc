#include "asup/bench/compare/program_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "asup/base/clock.h"
#include "asup/launch/process.h"
#include "asup/launch/rank_end.h"

namespace asup::bench {
namespace {

constexpr Seconds kGrace{10};  // from being asked to end to being killed

// Of the process, where it has ended. Takes away whatever else has: orphans come to us.
std::optional<int> status_of(pid_t pid) {
  std::optional<int> found;
  int status = 0;
  for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
    if (ended == pid) found = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return found;
}

}  // namespace

Interrupted::Interrupted(int signal)
    : Error(fmt::format("ended by {}{}", launch::signal_name(signal),
                        signal == SIGINT ? " (Ctrl-C)" : "")),
      signal_(signal) {}

int ProgramRunner::run(const std::vector<std::string>& argv,
                       const std::vector<std::string>& variables, const std::string& log) {
  const Fd out(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  check(static_cast<bool>(out), "{}: {}", log, std::strerror(errno));
  launch::ProcessOptions options;
  options.argv = argv;
  options.environment = launch::own_environment();
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    launch::set_variable(options.environment, variable.substr(0, equals),
                         variable.substr(equals + 1));
  }
  options.out = options.err = out.get();
  return wait_for(launch::start_process(options));
}

int ProgramRunner::wait_for(pid_t pid) {
  for (;;) {
    for (const int signal : signals_.take()) {
      if (signal == SIGCHLD) continue;
      end(pid, signal);
      throw Interrupted(signal);
    }
    if (const auto status = status_of(pid)) return *status;
    pollfd waiting{signals_.fd(), POLLIN, 0};
    poll(&waiting, 1, -1);
  }
}

// The program passes the signal on to what it has started, and is given the time for it.
void ProgramRunner::end(pid_t pid, int signal) {
  kill(-pid, signal);
  const auto start = Clock::now();
  while (!status_of(pid)) {
    if (seconds_since(start) > kGrace.count()) kill(-pid, SIGKILL);
    pollfd waiting{signals_.fd(), POLLIN, 0};
    poll(&waiting, 1, 200);
    signals_.take();
  }
}

}  // namespace asup::bench
