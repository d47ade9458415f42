// What the log of a job has to say whose workers were killed. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

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

}  // namespace asup::bench
