// What a job has left behind whose workers were killed, and what that says. Pure; safe from any
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "asup/bench/step_times.h"

namespace asup::bench {

// By step, losses and how many samples they are of.
struct LoggedLoss {
  double loss = 0;
  std::int64_t samples = 0;
};
using LoggedLosses = std::map<std::int64_t, LoggedLoss>;

// For each worker that is killed: of so many steps it may have told nothing, so that their rows are
// without its samples, or part of the next one's.
constexpr std::int64_t kUntoldOfOne = 3;

// Steps of a job that its rows, in their order, have not, or not once. `untold`: so many may be in
// the row of the next.
std::int64_t count_lost(const std::vector<std::int64_t>& rows, std::int64_t steps,
                        std::int64_t untold);

// Whether losses are others than those of a job without faults. `untold`: so many rows may have
// other samples, and say nothing.
bool differ(const LoggedLosses& losses, const LoggedLosses& undisturbed, std::int64_t untold);

// Of a worker; `seconds` of the host.
struct Kill {
  pid_t pid = 0;
  double seconds = 0;
};

// For each kill, the seconds until each of the others had begun and ended a step since: of the one
// that was last. Those that were killed before they had count no more; a kill that nobody saw the
// end of is left out.
std::vector<double> recovery_seconds(const TimesByWorker& times, const std::vector<Kill>& kills);

// Steps that were made and then made again, by the worker that went back furthest, in a job of so
// many.
std::int64_t count_again(const TimesByWorker& times, std::int64_t steps);

}  // namespace asup::bench
