// A job under way, as it is seen from outside, and newcomers that it is given. Linux alone; used
// from the thread of the runner.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "asup/bench/compare/program_runner.h"
#include "asup/bench/faults/job.h"
#include "asup/bench/faults/log.h"

namespace asup::bench {

class Watch {
 public:
  // Starts it.
  Watch(const FaultyJob& job, ProgramRunner& runner);
  Watch(const Watch&) = delete;

  // Until it holds: false where the job ends, or makes no step for two minutes.
  bool wait_until(const std::function<bool()>& condition);
  // The same, for so long.
  bool wait_for(double seconds);
  // That some worker has made.
  std::int64_t last_step() const;

  // Workers that train, and those that have come and do not yet.
  std::vector<pid_t> members() const;
  std::vector<pid_t> newcomers() const;
  std::vector<pid_t> servers() const;

  void let_join();
  void kill_process(pid_t victim);
  void interrupt();  // as by Ctrl-C

  // Waits for its end, and that of newcomers; who has not ended in time is killed.
  void end();

  // A command that lets others join.
  struct Joining {
    pid_t pid = 0;
    std::string log;
    int status = -1;        // none yet
    double ended = 0;       // seconds of the host
    bool after_us = false;  // it ended with the job, or behind it
  };
  bool hung() const { return hung_; }
  int status() const { return status_; }
  const std::vector<Kill>& kills() const { return kills_; }
  const std::vector<Joining>& joined() const { return joined_; }

 private:
  bool running();
  bool others_end();
  void took_end(const ProgramRunner::Ended& ended);

  const FaultyJob& job_;
  ProgramRunner& runner_;
  pid_t launcher_ = 0;
  std::vector<Kill> kills_;
  std::vector<Joining> joined_;
  bool ended_ = false, hung_ = false;
  int status_ = 0;
};

}  // namespace asup::bench
