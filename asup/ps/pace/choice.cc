#include "asup/ps/pace/choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace asup::ps::pace {

std::string describe_speeds(const std::vector<int>& workers, const std::vector<double>& seconds) {
  const double fastest = *std::min_element(seconds.begin(), seconds.end());
  std::string slow;
  for (std::size_t i = 0; i < workers.size(); ++i)
    if (seconds[i] > 1.15 * fastest)
      slow += fmt::format("{}worker {} takes {:.1f} times", slow.empty() ? "" : ", ", workers[i],
                          seconds[i] / fastest);
  return slow.empty() ? fmt::format("all take about {:.3g} s", fastest)
                      : slow + fmt::format(" the fastest one's {:.3g} s", fastest);
}

std::string describe(const Bounds& bounds) {
  std::string text = bounds.gather == kAll ? "gather all" : fmt::format("gather {}", bounds.gather);
  if (bounds.spare > 0) text += fmt::format(" but {}", bounds.spare);
  if (bounds.patience < kForever) text += fmt::format(", patience {:.3g} s", bounds.patience);
  if (bounds.staleness < kForever) text += fmt::format(", staleness {:g}", bounds.staleness);
  if (bounds.keep < kForever) text += fmt::format(", keep {:g}", bounds.keep);
  return text;
}

std::string describe(const Choice& choice) {
  std::string lengths;
  const bool is_even = std::all_of(choice.lengths.begin(), choice.lengths.end(),
                                   [](double length) { return length == 1; });
  if (!is_even)
    for (const double length : choice.lengths) lengths += fmt::format(" {:.2f}", length);
  return fmt::format(
      "step {}: {} ({}{}), speed {:.2f}, staleness {:.2f}, gamma {:.2f} x {:.1f}, score {:.3f} "
      "(was {:.3f}): {}",
      choice.step, choice.name, describe(choice.bounds),
      lengths.empty() ? "" : ", leases" + lengths, choice.speed, choice.staleness,
      choice.sensitivity, choice.weight, choice.score, choice.score_before, choice.reason);
}

}  // namespace asup::ps::pace
