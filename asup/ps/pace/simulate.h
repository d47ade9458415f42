// What a pace would give: the rule by which the pacer waits (pacer.h), run on measured times by a
// clock that is only reckoned. A pure function; safe from any thread.
//
// It does what a Pacer does that gathers all (a test compares them), without its books, since it is
// asked for many candidates and many workers at once.
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

// With bounds that gather all: of `bounds`, patience and keep count.
Prediction simulate(const Bounds& bounds, std::span<const VirtualWorker> workers);

// For how long it is looked at.
double simulated_seconds(std::span<const VirtualWorker> workers);
// At first, workers fall out of step: what is applied in this share of the time does not count.
constexpr double kSimulatedWarmUp = 0.25;

}  // namespace asup::ps::pace
