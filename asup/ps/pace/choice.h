// One decision of the controller, with the numbers it saw: for the log and the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/ps/pace/pacer.h"

namespace asup::ps::pace {

struct Choice {
  double time = 0;
  std::uint64_t step = 0, version = 0;
  Bounds bounds;                     // from now on
  bool is_change = false;            // else the first, or one that froze
  std::vector<double> step_seconds;  // a worker's time for a lease, as it is estimated; by worker
  double sensitivity = 0;  // gamma: what a step of staleness costs, end of training included
  double speed = 0;        // predicted, as a share of the workers' summed speed
  double staleness = 0;    // predicted, mean of a sample, in steps
  double score = 0, score_before = 0;  // of these bounds, and of those in force until now
  std::string reason;                  // in words
};

// One line, such as "step 120: gather all, patience 0.031 s (was …): worker 3 takes 4.0 times …".
std::string describe(const Choice& choice);
std::string describe(const Bounds& bounds);

}  // namespace asup::ps::pace
