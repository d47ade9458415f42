#include "asup/ps/pace/timing.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace asup::ps::pace {
namespace {

constexpr std::size_t kWindow = 32;
constexpr std::size_t kFew = 7;
constexpr double kJump = 1.5;         // a new speed, from this ratio on
constexpr double kLeastMargin = 0.1;  // of the typical time
constexpr double kDeviations = 5;     // median deviations that are still jitter

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> last_few(const std::deque<double>& values) {
  const std::size_t count = std::min(values.size(), kFew);
  return {values.end() - static_cast<std::ptrdiff_t>(count), values.end()};
}

bool is_jump(double from, double to) { return to > from * kJump || to * kJump < from; }

}  // namespace

void Timing::add(double seconds_per_sample) {
  const bool is_new_speed = recent_.size() >= 2 && is_jump(typical(), seconds_per_sample) &&
                            is_jump(typical(), recent_.back()) &&
                            !is_jump(recent_.back(), seconds_per_sample);
  if (is_new_speed) recent_.erase(recent_.begin(), recent_.end() - 1);
  recent_.push_back(seconds_per_sample);
  if (recent_.size() > kWindow) recent_.pop_front();
}

double Timing::typical() const { return median(last_few(recent_)); }

double Timing::mean() const {
  return std::accumulate(recent_.begin(), recent_.end(), 0.0) / static_cast<double>(recent_.size());
}

double Timing::overdue() const {
  const double middle = typical();
  std::vector<double> deviations = last_few(recent_);
  for (double& value : deviations) value = value > middle ? value - middle : middle - value;
  return middle + std::max(kLeastMargin * middle, kDeviations * median(deviations));
}

}  // namespace asup::ps::pace
