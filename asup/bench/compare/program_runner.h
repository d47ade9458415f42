// Runs programs, one after the other or some at a time, for somebody who has something to take down
// in the end.
//
// While a runner lives, Ctrl-C, SIGTERM and SIGHUP do not end this process: they end the programs
// that run, or the next one, and come out of run() and wait() as an exception. Make it on the main
// thread, before there is any other, and before what is to be taken down. Used from that thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/launch/signals.h"

namespace asup::bench {

// Somebody wants all this to end.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal);
  int exit_status() const { return 128 + signal_; }

 private:
  int signal_;
};

class ProgramRunner {
 public:
  ProgramRunner() = default;
  ProgramRunner(const ProgramRunner&) = delete;
  ~ProgramRunner();  // ends those that still run

  // All that it writes goes to the file `log`; `variables` ("NAME=value") go over our own.
  pid_t start(const std::vector<std::string>& argv, const std::vector<std::string>& variables,
              const std::string& log);

  struct Ended {
    pid_t pid;
    int status;  // that it exited with, 128 + n where signal n ended it
  };
  // The next of those that were started to end. needs: one that runs. Throws Interrupted when all
  // have ended.
  Ended wait();
  // The same, if one ends within the time.
  std::optional<Ended> wait_for(Seconds time);
  bool is_running() const { return !running_.empty(); }  // any of them

  // Starts one and waits for it: its status. needs: none that runs
  int run(const std::vector<std::string>& argv, const std::vector<std::string>& variables,
          const std::string& log);

 private:
  std::optional<Ended> take_ended();
  void end_all(int signal);

  launch::Signals signals_;
  std::set<pid_t> running_;
};

}  // namespace asup::bench
