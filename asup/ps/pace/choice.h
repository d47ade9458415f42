// One decision of the controller, with the numbers it saw: for the log and the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "asup/ps/pace/elsewhere.h"
#include "asup/ps/pace/pacer.h"

namespace asup::ps::pace {

struct Choice {
  double time = 0;
  std::uint64_t step = 0, version = 0;
  Bounds bounds;                    // from now on
  std::vector<int> workers;         // that it was made for
  std::vector<double> lengths;      // of their leases, even ones being 1
  std::vector<double> seconds;      // that each takes for an even lease, as estimated
  double sensitivity = 0;           // gamma: what a step of staleness costs
  double weight = 1;                // by which gamma counts more at the end of training
  double speed = 0;                 // predicted, as a share of the workers' summed speed
  double staleness = 0;             // predicted, mean of a sample, in steps
  double score = 0;                 // of these bounds
  double score_before = 0;          // of those in force until now, by the same numbers
  double exchange = 0;              // seconds of a lease in which workers do not compute,
  double exchange_share = 0;        // and their share of it: the largest of any worker
  std::optional<Elsewhere> leaves;  // training is to go on without the servers
  std::uint64_t samples = 0;        // applied until now,
  double measured_staleness = 0;    // and how late they really were, mean of a sample, in steps
  std::string name, reason;         // in words
};

// One line, such as "step 120: balanced leases, …: worker 3 takes 4.0 times as long as …".
std::string describe(const Choice& choice);
std::string describe(const Bounds& bounds);
// Each worker's pace beside the fastest one's.
std::string describe_speeds(const std::vector<int>& workers, const std::vector<double>& seconds);

}  // namespace asup::ps::pace
