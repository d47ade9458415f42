#include "asup/bench/compare/program_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "asup/base/clock.h"
#include "asup/launch/process.h"
#include "asup/launch/rank_end.h"

namespace asup::bench {
namespace {

constexpr Seconds kGrace{10};  // from being asked to end to being killed

}  // namespace

Interrupted::Interrupted(int signal)
    : Error(fmt::format("ended by {}{}", launch::signal_name(signal),
                        signal == SIGINT ? " (Ctrl-C)" : "")),
      signal_(signal) {}

ProgramRunner::~ProgramRunner() { end_all(SIGTERM); }

pid_t ProgramRunner::start(const std::vector<std::string>& argv,
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
  return *running_.insert(launch::start_process(options)).first;
}

int ProgramRunner::run(const std::vector<std::string>& argv,
                       const std::vector<std::string>& variables, const std::string& log) {
  start(argv, variables, log);
  return wait().status;
}

ProgramRunner::Ended ProgramRunner::wait() {
  for (;;)
    if (const auto ended = wait_for(Seconds(3600))) return *ended;
}

std::optional<ProgramRunner::Ended> ProgramRunner::wait_for(Seconds time) {
  for (const Deadline deadline = after(time);;) {
    for (const int signal : signals_.take()) {
      if (signal == SIGCHLD) continue;
      end_all(signal);
      throw Interrupted(signal);
    }
    if (const auto ended = take_ended()) return *ended;
    const Seconds left = deadline - Clock::now();
    if (left <= Seconds(0)) return std::nullopt;
    pollfd waiting{signals_.fd(), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(std::ceil(left.count() * 1000)));
  }
}

// Takes away whatever else has ended before it: orphans come to us.
std::optional<ProgramRunner::Ended> ProgramRunner::take_ended() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    if (running_.erase(pid) > 0)
      return Ended{pid, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
  return std::nullopt;
}

// Programs pass the signal on to what they have started, and are given the time for it.
void ProgramRunner::end_all(int signal) {
  for (const pid_t pid : running_) kill(-pid, signal);
  const auto start = Clock::now();
  for (;;) {
    while (take_ended()) {
    }
    if (running_.empty()) return;
    if (seconds_since(start) > kGrace.count())
      for (const pid_t pid : running_) kill(-pid, SIGKILL);
    pollfd waiting{signals_.fd(), POLLIN, 0};
    poll(&waiting, 1, 200);
    signals_.take();
  }
}

}  // namespace asup::bench
