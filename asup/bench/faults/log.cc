#include "asup/bench/faults/log.h"

#include <algorithm>
#include <cmath>

namespace asup::bench {
namespace {

constexpr double kTolerance = 2e-3;  // of a loss; sums are in another order

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

}  // namespace asup::bench
