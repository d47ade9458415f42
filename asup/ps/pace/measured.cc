#include "asup/ps/pace/measured.h"

#include <algorithm>

#include "asup/ps/pace/mean.h"

namespace asup::ps::pace {
namespace {

constexpr double kShortest = 1.0 / 64;  // of balanced leases

}  // namespace

Measured::Measured(const Timing& timing)
    : typical(timing.typical()),
      overdue(timing.overdue()),
      fixed(timing.fixed()),
      exchange(timing.exchange()),
      seconds(timing.seconds()),
      mean(mean_of(seconds)) {}

void Measured::scale(double by) {
  typical *= by;
  overdue *= by;
  mean *= by;
  for (double& each : seconds) each *= by;
}

Workers measure(const std::map<int, Watched>& workers) {
  const Timing* example = nullptr;
  for (const auto& [id, worker] : workers) example = better_known(example, worker.timing);
  Workers measured;
  if (example == nullptr) return measured;
  for (const auto& [id, worker] : workers) {
    const Timing& own = *worker.timing;
    Measured& of = measured.emplace(id, own.is_known() ? own : *example).first->second;
    if (own.has_only_first()) of.scale(own.factor_after_first(*example));
    if (!own.is_known() && worker.elapsed > of.overdue) of.scale(worker.elapsed / of.typical);
  }
  return measured;
}

std::map<int, double> balanced_lengths(const Workers& workers) {
  const auto even = static_cast<double>(workers.size());
  const auto length_of = [](const Measured& worker, double time) {
    return std::max(worker.length_for(time), kShortest);
  };
  double low = 0, high = 0;
  for (const auto& [id, worker] : workers)
    high = std::max(high, worker.typical * worker.factor(even));
  // The time in which all are done: longer leases take longer, so halving finds it.
  for (int round = 0; round < 50; ++round) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const auto& [id, worker] : workers) sum += length_of(worker, middle);
    (sum < even ? low : high) = middle;
  }
  std::map<int, double> lengths;
  for (const auto& [id, worker] : workers) lengths[id] = length_of(worker, high);
  return lengths;
}

}  // namespace asup::ps::pace
