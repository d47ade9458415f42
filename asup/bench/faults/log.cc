#include "asup/bench/faults/log.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace asup::bench {
namespace {

constexpr double kTolerance = 2e-3;  // of a loss; sums are in another order

// When this worker, which was there, had begun and ended a step after that time; nothing where it
// was never seen to.
std::optional<double> next_step(const std::vector<BatchBegin>& times, double since) {
  if (times.empty() || times.front().seconds > since) return std::nullopt;  // a newcomer
  const auto begun = std::ranges::upper_bound(times, since, {}, &BatchBegin::seconds);
  const auto ended = std::find_if(
      begun, times.end(), [&](const BatchBegin& each) { return each.progress > begun->progress; });
  return ended == times.end() ? std::nullopt : std::optional(ended->seconds);
}

}  // namespace

std::int64_t count_lost(const std::vector<std::int64_t>& rows, std::int64_t steps,
                        std::int64_t untold) {
  std::int64_t last = 0, left_out = 0, again = 0;
  for (const std::int64_t step : rows) {
    left_out += std::max<std::int64_t>(0, step - last - 1);
    again += std::max<std::int64_t>(0, last - step + 1);
    last = step;
  }
  return std::max<std::int64_t>(0, left_out - untold) + again + steps - last;
}

bool differ(const LoggedLosses& losses, const LoggedLosses& undisturbed, std::int64_t untold) {
  std::int64_t others = 0;
  for (const auto& [step, was] : undisturbed) {
    const auto now = losses.find(step);
    if (now == losses.end()) continue;
    if (now->second.samples != was.samples)
      ++others;
    else if (!(std::abs(now->second.loss - was.loss) <= kTolerance * std::max(1.0, was.loss)))
      return true;
  }
  return others > untold;
}

std::vector<double> recovery_seconds(const TimesByWorker& times, const std::vector<Kill>& kills) {
  std::vector<double> all;
  for (const Kill& kill : kills) {
    double last = 0;
    for (const auto& [pid, of_one] : times)
      if (const auto next = next_step(of_one, kill.seconds); next && pid != kill.pid)
        last = std::max(last, *next);
    if (last > 0) all.push_back(last - kill.seconds);
  }
  return all;
}

std::int64_t count_again(const TimesByWorker& times, std::int64_t steps) {
  std::int64_t most = 0;
  for (const auto& [pid, of_one] : times) {
    double again = 0;
    for (std::size_t i = 1; i < of_one.size(); ++i)
      again += std::max(0.0, of_one[i - 1].progress - of_one[i].progress);
    most = std::max<std::int64_t>(most, std::llround(again * static_cast<double>(steps)));
  }
  return most;
}

}  // namespace asup::bench
