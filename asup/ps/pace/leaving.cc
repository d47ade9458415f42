#include "asup/ps/pace/leaving.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace asup::ps::pace {
namespace {

constexpr double kMuchFaster = 1.15;    // to be worth the change,
constexpr double kSecondsToGain = 1.0;  // with as much as this to be gained in the rest of the run
constexpr int kTimes = 3;
constexpr double kLeastComputing = 0.05;  // of a lease

// The longest: all wait for it.
double exchange_of(const Workers& workers) {
  double longest = 0;
  for (const auto& [id, worker] : workers) longest = std::max(longest, worker.exchange);
  return longest;
}

// As many of the last times of each worker.
std::vector<Computing> computing_of(const Workers& workers) {
  std::size_t count = std::numeric_limits<std::size_t>::max();
  for (const auto& [id, worker] : workers) count = std::min(count, worker.seconds.size());
  std::vector<Computing> computing;
  for (const auto& [id, worker] : workers) {
    Computing& of = computing.emplace_back();
    of.seconds.assign(worker.seconds.end() - static_cast<std::ptrdiff_t>(count),
                      worker.seconds.end());
    for (double& each : of.seconds) each = std::max(each - worker.exchange, each * kLeastComputing);
    // What is fixed is the exchange, for the most part; the rest is a share of computing.
    const double share = std::min(worker.exchange / worker.typical, 1 - kLeastComputing);
    of.fixed = std::max(0.0, worker.fixed - share) / (1 - share);
  }
  return computing;
}

}  // namespace

std::optional<Elsewhere> Leaving::look(const Workers& workers, const Here& here) {
  const Elsewhere elsewhere =
      best_elsewhere(computing_of(workers), exchange_of(workers), here.update_seconds);
  const bool pays = here.step_seconds > kMuchFaster * elsewhere.seconds &&
                    (here.step_seconds - elsewhere.seconds) * here.steps_left > kSecondsToGain;
  times_ = pays ? times_ + 1 : 0;
  return times_ >= kTimes ? std::optional(elsewhere) : std::nullopt;
}

void leave(Choice& choice, const Elsewhere& elsewhere, double step_seconds) {
  const double gain = step_seconds / elsewhere.seconds;
  choice.leaves = elsewhere;
  choice.name = name_of(elsewhere);
  choice.speed *= gain;
  choice.score_before = choice.score;
  choice.score *= gain;
  choice.reason = fmt::format(
      "through servers a step takes {:.3g} s, of which {:.3g} s are exchange; without them about "
      "{:.3g} s, by what was measured",
      step_seconds, choice.exchange, elsewhere.seconds);
}

}  // namespace asup::ps::pace
