#include "asup/ps/pace/timing.h"

#include <algorithm>
#include <cmath>

namespace asup::ps::pace {
namespace {

constexpr std::size_t kWindow = 32;
constexpr std::size_t kFew = 15;
constexpr double kJump = 1.5;          // a new speed, from this ratio on
constexpr double kClearPart = 0.1;     // of a lease, from which another exchange is worth it
constexpr double kLeastMargin = 0.1;   // of the typical time
constexpr double kDeviations = 5;      // median deviations that are still jitter
constexpr double kOtherLength = 1.25;  // a ratio of lengths from which the fixed share is estimated
constexpr int kLearned = 6;            // times after such a change that it is estimated from
constexpr double kLearningRate = 0.4;
constexpr double kMostFixed = 0.9;  // some of it always grows with the length

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool is_apart(double a, double b, double ratio) { return a > b * ratio || b > a * ratio; }

// Two in a row that agree with each other, and not with what was usual.
bool is_jump(double usual, double last, double now) {
  return is_apart(usual, now, kJump) && is_apart(usual, last, kJump) && !is_apart(last, now, kJump);
}

}  // namespace

void Timing::add(double length, double seconds, double exchange) {
  const Time time{length, seconds, exchange};
  if (times_ == 0) first_ = even(time);
  if (times_ == 1) recent_.clear();
  ++times_;
  if (!recent_.empty() && is_apart(length, recent_.back().length, kOtherLength)) {
    before_ = {recent_.back().length, typical() * factor(recent_.back().length), 0};
    to_learn_ = kLearned;
  }
  if (to_learn_ > 0)
    learn_fixed(time);
  else if (is_new_speed(time))
    recent_.erase(recent_.begin(), recent_.end() - 1);
  recent_.push_back(time);
  if (recent_.size() > kWindow) recent_.pop_front();
}

// What comes on top of a first lease may be as many seconds for all, or as many times longer: the
// longer of both is taken, so that nobody is thought to be late who is not.
double Timing::factor_after_first(const Timing& other) const {
  if (!other.is_known() || other.has_only_first()) return 1;
  const double extra = std::max(other.first_ - other.typical(), 0.0);
  const double factor = other.first_ / (other.first_ - extra);
  return std::max(1 / factor, 1 - extra / first_);
}

bool Timing::is_new_speed(const Time& time) const {
  if (recent_.size() < 2) return false;
  const Time& last = recent_.back();
  const double usual = typical(), usual_exchange = exchange();
  if (is_jump(usual, even(last), even(time))) return true;
  // Links that become slower are a part of a lease only.
  return is_jump(usual_exchange, last.exchange, time.exchange) &&
         std::abs(time.exchange - usual_exchange) > kClearPart * usual;
}

// From what was usual before lengths changed, and this time: the line through both.
void Timing::learn_fixed(const Time& time) {
  --to_learn_;
  if (!is_apart(time.length, before_.length, kOtherLength)) return;
  const double slope = (time.seconds - before_.seconds) / (time.length - before_.length);
  const double at_one = before_.seconds + slope * (1 - before_.length);
  if (at_one <= 0) return;  // a pause, or a new speed just now
  const double fixed = std::clamp(1 - slope / at_one, 0.0, kMostFixed);
  fixed_ += kLearningRate * (fixed - fixed_);
}

double Timing::typical() const { return median(last_few()); }

double Timing::overdue() const {
  const double middle = typical();
  std::vector<double> deviations = last_few();
  for (double& value : deviations) value = value > middle ? value - middle : middle - value;
  const double margin = (is_settled() ? kLeastMargin : kFirstMargin) * middle;
  return middle + std::max(margin, kDeviations * median(deviations));
}

double Timing::exchange() const {
  std::vector<double> few;
  for (std::size_t i = 0; i < std::min(recent_.size(), kFew); ++i)
    few.push_back(recent_[recent_.size() - 1 - i].exchange);
  return median(std::move(few));
}

std::vector<double> Timing::seconds() const {
  std::vector<double> all;
  for (const Time& time : recent_) all.push_back(even(time));
  return all;
}

double Timing::length_for(double seconds) const {
  return (seconds / typical() - fixed_) / (1 - fixed_);
}

std::vector<double> Timing::last_few() const {
  const std::size_t count = std::min(recent_.size(), kFew);
  std::vector<double> few;
  for (auto time = recent_.end() - static_cast<std::ptrdiff_t>(count); time != recent_.end();
       ++time)
    few.push_back(even(*time));
  return few;
}

const Timing* better_known(const Timing* one, const Timing* other) {
  if (!other || !other->is_known()) return one && one->is_known() ? one : nullptr;
  if (!one || !one->is_known()) return other;
  return one->has_only_first() && !other->has_only_first() ? other : one;
}

}  // namespace asup::ps::pace
