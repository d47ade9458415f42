#include "asup/train/batch_schedule.h"

#include <algorithm>
#include <sstream>

#include "asup/base/error.h"
#include "asup/base/numbers.h"
#include "asup/config/field_or.h"

namespace asup::train {
namespace {

constexpr std::int64_t kLargest = 65536;  // factor, and product of all

Growth parse_growth(const std::string& text) {
  const std::size_t place = text.find('@');
  const auto factor = number_in<std::int64_t>(text.substr(0, place));
  const auto at =
      place == text.npos ? std::nullopt : StepOrShare::from_text(text.substr(place + 1));
  require(factor && *factor >= 2 && *factor <= kLargest && at,
          "batch-schedule: '{}' is not a factor and a moment, like 4@50%: from half of the run on, "
          "batches are four times as large. The factor is 2 … {}, the moment {}.",
          text, kLargest, StepOrShare::kWanted);
  return {*factor, *at};
}

}  // namespace

std::vector<Growth> parse_batch_schedule(const std::string& text) {
  std::vector<Growth> growths;
  if (text == config::kNone) return growths;
  std::istringstream words(text + ",");
  std::int64_t product = 1;
  for (std::string word; std::getline(words, word, ',');) {
    growths.push_back(parse_growth(word));
    product *= growths.back().factor;
    require(product <= kLargest, "batch-schedule = {}: batches become more than {} times as large",
            text, kLargest);
  }
  return growths;
}

Updates::Updates(const TrainConfig& config, const RunLength& length) : length_(length) {
  for (const Growth& growth : parse_batch_schedule(config.batch_schedule)) {
    const From& last = from_.back();
    const std::int64_t step = growth.at.steps(length.steps);
    require(
        step > last.step && step < length.steps,
        "batch-schedule: {}@{} is step {}, which is not within the run's {} steps, or not after "
        "the growth before it. Give moments between them that follow each other.",
        growth.factor, growth.at.to_text(), step, length.steps);
    from_.push_back({step, last.steps_of_update * growth.factor});
  }
}

std::int64_t Updates::steps(std::int64_t step) const {
  const auto after =
      std::upper_bound(from_.begin(), from_.end(), step,
                       [](std::int64_t s, const From& from) { return s < from.step; });
  const std::int64_t epoch_end = (step / length_.steps_per_epoch + 1) * length_.steps_per_epoch;
  return std::min(std::prev(after)->steps_of_update, std::min(epoch_end, length_.steps) - step);
}

// One ends where an epoch does.
std::int64_t Updates::begin(std::int64_t step) const {
  if (!grow()) return step;
  std::int64_t at = step / length_.steps_per_epoch * length_.steps_per_epoch;
  while (at + steps(at) <= step) at += steps(at);
  return at;
}

std::int64_t Updates::end(std::int64_t step) const {
  if (!grow() || step == 0) return step;
  const std::int64_t last = begin(std::min(step, length_.steps) - 1);
  return last + steps(last);
}

std::int64_t Updates::count() const {
  std::int64_t count = 0;
  for (std::int64_t at = 0; at < length_.steps; at += steps(at)) ++count;
  return count;
}

}  // namespace asup::train
