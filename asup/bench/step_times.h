// When the workers of a job began their batches, for whoever watches it from outside: a file for
// each worker, named by its process, which is read while the job runs and after the worker was
// killed. A step is done when the next one's batch begins. A writer is used from one thread;
// reading is safe from any.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "asup/base/fd.h"

namespace asup::bench {

struct BatchBegin {
  double seconds = 0;   // of the clock that all processes of a host have in common
  double progress = 0;  // the share of the run that is done
};

// Of this host, now.
double seconds_of_host();

class StepTimes {
 public:
  // "": writes nothing. Throws Error where the folder cannot be written to.
  explicit StepTimes(const std::string& folder = "");
  void batch_begins(double progress);

 private:
  Fd file_;
};

// By process. Those of whom nothing is there yet are left out, and so is half of an entry.
using TimesByWorker = std::map<pid_t, std::vector<BatchBegin>>;
TimesByWorker read_step_times(const std::string& folder);
// The same, but of each worker the last one alone.
std::map<pid_t, BatchBegin> last_step_times(const std::string& folder);

}  // namespace asup::bench
