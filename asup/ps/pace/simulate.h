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
};

struct Prediction {
  double speed = 0;      // leases applied, as a share of what all workers could do in that time
  double staleness = 0;  // mean of a lease that was applied, in steps
};

Prediction simulate(const Bounds& bounds, std::span<const VirtualWorker> workers);

}  // namespace asup::ps::pace
