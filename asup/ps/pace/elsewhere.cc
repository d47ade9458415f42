#include "asup/ps/pace/elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "asup/base/error.h"
#include "asup/ps/pace/mean.h"

namespace asup::ps::pace {
namespace {

constexpr double kBackward = 2.0 / 3;  // share of computing in which gradients can travel
constexpr double kLast = 0.1;          // share of an exchange that is after it in any case
// Parameters come from servers once in an exchange; ranks send and receive everything twice, the
// sum and its parts.
constexpr double kAllReduce = 2;
constexpr double kOwnUpdate = 1.5;  // times the servers', whose kernels do a rule in one pass
// What each step without an exchange costs, of its progress, for each worker: the smaller its part
// of a batch, the further it goes astray. Jobs lose a quarter to three times as much
// (bench/scenes.py).
constexpr double kDrift = 0.006;
constexpr double kHeldBack = 1.2;  // and what it would, if a worker became slower: all wait for it
constexpr int kEvery[] = {2, 4, 8, 16};

// The longest of the workers' spans of so many leases, by one lease, on average: where all wait for
// all after them. `lengths`: of leases, even ones being 1.
double step_in_lockstep(std::span<const Computing> workers, const std::vector<double>& lengths,
                        std::size_t every) {
  const std::size_t count = workers.front().seconds.size();
  double sum = 0;
  for (std::size_t begin = 0; begin < count; begin += every) {
    double longest = 0;
    const std::size_t end = std::min(begin + every, count);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const Computing& worker = workers[i];
      const auto first = worker.seconds.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = worker.seconds.begin() + static_cast<std::ptrdiff_t>(end);
      const double factor = worker.fixed + (1 - worker.fixed) * lengths[i];
      longest = std::max(longest, factor * std::accumulate(first, last, 0.0));
    }
    sum += longest;
  }
  return sum / static_cast<double>(count);
}

// As long as the workers are fast.
std::vector<double> shares(std::span<const Computing> workers) {
  double rate = 0;
  for (const Computing& worker : workers) rate += 1 / mean_of(worker.seconds);
  std::vector<double> lengths;
  for (const Computing& worker : workers)
    lengths.push_back(static_cast<double>(workers.size()) / mean_of(worker.seconds) / rate);
  return lengths;
}

}  // namespace

Elsewhere best_elsewhere(std::span<const Computing> workers, double exchange, double update) {
  check(!workers.empty() && !workers.front().seconds.empty(), "no workers to leave servers with");
  const double wire = kAllReduce * std::max(exchange - update, 0.0);
  const double own = kOwnUpdate * update;
  const double balanced = step_in_lockstep(workers, shares(workers), 1);
  Elsewhere best{Elsewhere::By::all_reduce, 1,
                 balanced + own + std::max(wire - kBackward * balanced, kLast * wire)};
  const std::vector<double> even(workers.size(), 1.0);
  const double drift = kDrift * static_cast<double>(workers.size());
  for (const int every : kEvery) {
    const double step = step_in_lockstep(workers, even, static_cast<std::size_t>(every));
    const double seconds = (step + own + wire / every) * (1 + drift * (every - 1)) * kHeldBack;
    if (seconds < best.seconds) best = {Elsewhere::By::local, every, seconds};
  }
  return best;
}

std::string name_of(const Elsewhere& elsewhere) {
  return elsewhere.by == Elsewhere::By::all_reduce
             ? "all-reduce, balanced"
             : fmt::format("local, every {}", elsewhere.every);
}

}  // namespace asup::ps::pace
