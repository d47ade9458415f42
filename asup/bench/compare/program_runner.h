// Runs programs one after the other for somebody who has something to take down in the end.
//
// While a runner lives, Ctrl-C, SIGTERM and SIGHUP do not end this process: they end the program
// that runs, or the next one, and come out of run() as an exception. Make it on the main thread,
// before there is any other, and before what is to be taken down.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

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
  // The exit status, 128 + n where signal n ended it. All that it writes goes to the file `log`;
  // `variables` ("NAME=value") go over our own. Throws Interrupted.
  int run(const std::vector<std::string>& argv, const std::vector<std::string>& variables,
          const std::string& log);

 private:
  int wait_for(pid_t pid);
  void end(pid_t pid, int signal);

  launch::Signals signals_;
};

}  // namespace asup::bench
