#include "asup/train/round_clock.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::train {
namespace {

// The first steps take longer than those to come: memory is fresh, and convolutions are prepared.
constexpr int kStepsToMeasure = 3;

}  // namespace

void RoundClock::stepped(double seconds) {
  const auto step = std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(seconds));
  shortest_ = steps_ == 0 ? step : std::min(shortest_, step);
  last_ = seconds;
  ++steps_;
}

bool RoundClock::measured() const { return seconds_.count() == 0 || steps_ >= kStepsToMeasure; }

bool RoundClock::over() const {
  return seconds_.count() > 0 && seconds_since(began_) + last_ >= seconds_.count();
}

void RoundClock::require_longer_than(std::chrono::nanoseconds slowest_step) const {
  if (seconds_.count() == 0) return;
  const double step = Seconds(slowest_step).count();
  require(
      seconds_.count() >= step,
      "round-seconds = {:g} is shorter than a step, which takes {:.3g} s on the slowest worker: "
      "it would never get one done. Raise round-seconds, or lower batch.",
      seconds_.count(), step);
}

}  // namespace asup::train
