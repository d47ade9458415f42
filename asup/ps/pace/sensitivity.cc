#include "asup/ps/pace/sensitivity.h"

#include <algorithm>
#include <cmath>

namespace asup::ps::pace {
namespace {

constexpr double kHalfWindow = 16;  // steps
// Of the prior: its middle without momentum, what momentum adds to it, and the width of log gamma.
constexpr double kWithoutMomentum = 0.1, kByMomentum = 0.45, kPriorWidth = 0.5;
constexpr double kLeastDifference = 0.2;  // of staleness, to learn from
constexpr double kTrend = 0.5;  // progress may change by so much on its own, from window to window

}  // namespace

Sensitivity::Sensitivity(double momentum) {
  const double middle = kWithoutMomentum + kByMomentum * std::clamp(momentum, 0.0, 1.0);
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    const double off = std::log(kValues[i] / middle) / kPriorWidth;
    probability_[i] = std::exp(-0.5 * off * off);
  }
}

void Sensitivity::add(double steps, double loss, double staleness) {
  if (!(steps > 0) || !std::isfinite(loss) || loss <= 0) return;
  Half& half = first_.steps < kHalfWindow ? first_ : second_;
  half.steps += steps;
  half.loss += steps * loss;
  half.square += steps * loss * loss;
  half.staleness += steps * staleness;
  ++half.count;
  if (second_.steps >= kHalfWindow) close_window();
}

void Sensitivity::cut() { first_ = second_ = {}; }

double Sensitivity::gamma() const {
  double sum = 0, weighted = 0;
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    sum += probability_[i];
    weighted += probability_[i] * kValues[i];
  }
  return weighted / sum;
}

double Sensitivity::Half::variance() const {
  const double spread = std::max(square / steps - mean() * mean(), 0.0);
  return spread / (mean() * mean() * count);
}

void Sensitivity::close_window() {
  const Progress now{std::log(first_.mean() / second_.mean()),
                     first_.variance() + second_.variance(),
                     (first_.staleness + second_.staleness) / (first_.steps + second_.steps), true};
  if (progress_.is_known) learn(progress_, now);
  progress_ = now;
  cut();
}

void Sensitivity::learn(const Progress& before, const Progress& now) {
  const bool has_changed = std::abs(now.staleness - before.staleness) >= kLeastDifference;
  if (!has_changed || before.fall <= 0) return;
  auto likely = probability_;
  double sum = 0;
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    const double ratio = (1 + kValues[i] * before.staleness) / (1 + kValues[i] * now.staleness);
    const double trend = kTrend * before.fall;
    const double variance = now.variance + ratio * ratio * before.variance + trend * trend;
    const double off = now.fall - ratio * before.fall;
    likely[i] *= std::exp(-0.5 * off * off / variance) / std::sqrt(variance);
    sum += likely[i];
  }
  if (!(sum > 0) || !std::isfinite(sum)) return;  // it is like none of them: a jump of the loss
  for (std::size_t i = 0; i < kValues.size(); ++i) probability_[i] = likely[i] / sum + 1e-6;
}

}  // namespace asup::ps::pace
