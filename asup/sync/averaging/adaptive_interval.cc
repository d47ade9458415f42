#include "asup/sync/averaging/adaptive_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "asup/base/error.h"

namespace asup::sync {

AdaptiveInterval::AdaptiveInterval(const AdaptiveIntervalOptions& options, const std::string& text)
    : options_(options), steps_(options.first_steps) {
  require(options.first_steps >= 1 && options.seconds.count() > 0,
          "an interval between merges cannot begin with {} steps and be chosen every {} s",
          options.first_steps, options.seconds.count());
  if (text.empty()) return;
  std::istringstream words(text);
  std::string title;
  double since = 0;
  words >> title >> steps_ >> loss_0_ >> lr_0_ >> lr_ >> since;
  since_ = Seconds(since);
  require(!words.fail() && (words >> std::ws).eof() && title == "every" && steps_ >= 1 &&
              loss_0_ >= 0 && lr_0_ >= 0 && lr_ >= 0 && since >= 0,
          "'{}' is no interval between merges: it was observed by another way of staying in step; "
          "leave it out",
          text);
}

void AdaptiveInterval::after_round(double loss, double lr, Seconds took) {
  since_ += took;
  if (!(loss > 0) || !std::isfinite(loss) || !(lr > 0)) return;
  if (lr > lr_0_) {
    loss_0_ = loss;
    lr_0_ = lr_ = lr;
  }
  if (since_ >= options_.seconds) choose(loss, lr);
}

void AdaptiveInterval::choose(double loss, double lr) {
  const double first = static_cast<double>(options_.first_steps);
  // What a loss of any size could ask for is no number of steps any more.
  const double wanted = std::min(std::ceil(first * std::sqrt(lr_0_ / lr * loss / loss_0_)), 1e9);
  const auto steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
  steps_ = steps < steps_ || lr != lr_ ? steps : (steps_ + 1) / 2;
  lr_ = lr;
  since_ = Seconds(0);
}

std::string AdaptiveInterval::to_text() const {
  return fmt::format("every {} {} {} {} {}", steps_, loss_0_, lr_0_, lr_, since_.count());
}

}  // namespace asup::sync
