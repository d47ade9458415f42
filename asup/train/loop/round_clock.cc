#include "asup/train/loop/round_clock.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"

namespace asup::train {
namespace {

// The first steps take longer than those to come: memory is fresh, and convolutions are prepared.
constexpr int kStepsToMeasure = 3;

// Of a step. What does not grow with samples is worth no less; and statistics over few are poor.
constexpr double kLastPortion = 0.25;

// What a worker can do while the one that deals out samples does not answer.
constexpr double kSecondsAhead = 3;

// In a round: one that is read while a worker is in a step, and one that is asked for meanwhile.
// All three are to end in time even where one takes twice as long as the last.
constexpr std::size_t kStepsAhead = 2;

}  // namespace

void RoundClock::stepped(double seconds, double share) {
  if (share < kLastPortion) return;  // too little to tell
  last_ = seconds / share;
  const auto step = std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(last_));
  shortest_ = steps_ == 0 ? step : std::min(shortest_, step);
  ++steps_;
}

bool RoundClock::measured() const { return seconds_.count() == 0 || steps_ >= kStepsToMeasure; }

std::chrono::nanoseconds RoundClock::shortest_step() const {
  return measured() ? shortest_ : std::chrono::nanoseconds(0);
}

double RoundClock::steps_left() const { return (seconds_.count() - seconds_since(began_)) / last_; }

std::size_t RoundClock::fit(std::size_t samples) const {
  if (seconds_.count() == 0 || !measured()) return samples;
  const double share = std::clamp(steps_left(), kLastPortion, 1.0);
  const auto portion = static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples)));
  return std::max(portion, std::min<std::size_t>(samples, 2));  // one sample has no statistics
}

bool RoundClock::over() const { return seconds_.count() > 0 && steps_left() < kLastPortion; }

std::size_t RoundClock::steps_ahead() const {
  if (steps_ == 0) return 0;
  if (seconds_.count() > 0) return measured() && steps_left() > kStepsAhead + 2 ? kStepsAhead : 0;
  const auto steps = static_cast<std::size_t>(kSecondsAhead / std::max(last_, 1e-6));
  return std::max(steps, kStepsAhead);
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
