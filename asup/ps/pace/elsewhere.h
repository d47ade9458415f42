// What training would take without the servers: by all-reduce, with parts as large as workers are
// fast, or by local steps with an exchange of models every few of them. From what is measured
// through the servers: how long workers compute, and how long their exchanges keep them waiting. A
// pure function; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace asup::ps::pace {

struct Elsewhere {
  enum class By { all_reduce, local };
  By by = By::all_reduce;
  int every = 1;       // by local: steps between two exchanges
  double seconds = 0;  // of a step, with what it is short of a synchronous one's progress
  bool operator==(const Elsewhere&) const = default;
};

// What is known of a worker: seconds of computing for even leases, one after the other, and the
// share of them that does not grow with the length.
struct Computing {
  std::vector<double> seconds;
  double fixed = 0;
};

// The best of them. `exchange`: seconds of a push, an update and a pull that are not hidden behind
// computing. `update`: of these, the servers' work, which every worker then does by itself. needs:
// workers with as many times each, at least one
Elsewhere best_elsewhere(std::span<const Computing> workers, double exchange, double update);

// "all-reduce, balanced" or "local, every 8".
std::string name_of(const Elsewhere& elsewhere);

}  // namespace asup::ps::pace
