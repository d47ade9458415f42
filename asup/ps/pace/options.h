// Who waits for whom, as a user chooses it. Values only; safe from any thread.
#pragma once

#include <string_view>

#include "asup/base/non_finite.h"

namespace asup::ps::pace {

enum class Kind {
  // All wait for all (Valiant 1990). With backup workers, for the first n - backup, which share the
  // whole batch (Chen et al. 2016).
  bsp,
  ssp,      // the fastest is at most so many pushes ahead of the slowest (Ho et al. 2013)
  asp,      // nobody waits
  kasync,   // an update takes the next K pushes, whoever they are from (Dutta et al. 2018)
  adaptive  // bounds are set by the controller while training
};
constexpr std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::bsp:
      return "bsp";
    case Kind::ssp:
      return "ssp";
    case Kind::asp:
      return "asp";
    case Kind::kasync:
      return "kasync";
    case Kind::adaptive:
      return "adaptive";
  }
  return "?";
}

struct Options {
  Kind kind = Kind::bsp;
  double staleness = 4;  // ssp: pushes that a worker may be ahead of the slowest when it goes on
  int backup = 0;  // bsp: so many workers are not waited for, and their late pushes are dropped
  int gather = 1;  // kasync: pushes of an update
  // A gradient that is `lag` steps late moves the model by lr / max(1, lag) (Zhang et al. 2016).
  bool stale_lr = false;
  NonFinite non_finite = NonFinite::skip;
  bool freeze = false;  // adaptive: the first choice stays, whatever is measured later
  bool leaves = false;  // adaptive: where another way is clearly faster, servers are left

  // Whether all workers have the same parameters after each step.
  bool in_step() const { return kind == Kind::bsp && backup == 0; }
  // Pushes of even leases that make a step: backup workers' are beyond it.
  int shares(int workers) const { return workers - backup; }
};

// Throw BadInput, which says what to change.
Kind kind_of(std::string_view name);
NonFinite non_finite_of(std::string_view name);
void require_sense(const Options& options, int workers);

}  // namespace asup::ps::pace
