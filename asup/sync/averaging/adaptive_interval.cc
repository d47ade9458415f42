#include "asup/sync/averaging/adaptive_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

constexpr double kFirst = 8, kMost = 16;

}  // namespace

AdaptiveInterval::AdaptiveInterval(const std::string& text) {
  if (text.empty()) return;
  std::istringstream words(text);
  std::string title;
  words >> title >> steps_ >> loss_0_ >> lr_0_;
  require(!words.fail() && (words >> std::ws).eof() && title == "every" && steps_ >= 1 &&
              steps_ <= static_cast<std::int64_t>(kMost) && loss_0_ >= 0 && lr_0_ >= 0,
          "'{}' is no interval between merges: it was observed by another way of staying in step; "
          "leave it out",
          text);
}

void AdaptiveInterval::after_round(double loss, double lr) {
  if (!(loss > 0) || !std::isfinite(loss) || !(lr > 0)) return;
  if (lr > lr_0_) {
    loss_0_ = loss;
    lr_0_ = lr;
  }
  const double steps = std::ceil(kFirst * std::sqrt(lr_0_ / lr * loss / loss_0_));
  steps_ = static_cast<std::int64_t>(std::clamp(steps, 1.0, kMost));
}

std::string AdaptiveInterval::to_text() const {
  return fmt::format("every {} {} {}", steps_, loss_0_, lr_0_);
}

}  // namespace asup::sync
