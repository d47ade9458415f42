// What bounds would give: the pacer itself, run on measured times by a clock that is only reckoned.
// A pure function; safe from any thread.
#pragma once

#include <span>
#include <vector>

#include "asup/ps/pace/pacer.h"

namespace asup::ps::pace {

// A worker that takes these times for its leases, one after the other and over again.
struct VirtualWorker {
  std::vector<double> seconds;
  double expected = 0, overdue = 0;  // seconds after its release, as the pacer is told
  double length = 1;                 // of its leases, even ones being 1
};

struct Prediction {
  double speed = 0;      // even leases' worth of samples that are applied in a second
  double staleness = 0;  // mean of a sample that is applied, in steps
};

Prediction simulate(const Bounds& bounds, std::span<const VirtualWorker> workers);

}  // namespace asup::ps::pace
