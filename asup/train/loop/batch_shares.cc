#include "asup/train/loop/batch_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "asup/base/error.h"

namespace asup::train {
namespace {

constexpr double kPicoseconds = 1e12;  // in a second
constexpr double kMost = 4e18;         // of each of two that are added

std::int64_t sum_of(std::span<const std::int64_t> parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
}

// Of the worker that is done last.
std::int64_t last_done(std::span<const std::int64_t> parts, std::span<const WorkTime> times) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) last = std::max(last, times[i].of(parts[i]));
  return last;
}

}  // namespace

WorkTime work_time(double seconds, double fixed, double even, std::int64_t batch) {
  const double whole = seconds * kPicoseconds;
  const double most = kMost / static_cast<double>(batch);
  return {std::llround(std::clamp(whole * fixed, 0.0, kMost)),
          std::llround(std::clamp(whole * (1 - fixed) / even, 1.0, most))};
}

std::vector<std::int64_t> even_shares(std::int64_t batch, std::size_t workers) {
  const auto count = static_cast<std::int64_t>(workers);
  std::vector<std::int64_t> parts(workers, batch / count);
  for (std::int64_t i = 0; i < batch % count; ++i) ++parts[static_cast<std::size_t>(i)];
  return parts;
}

std::int64_t least_share(std::int64_t batch, std::size_t workers) {
  return batch >= 2 * static_cast<std::int64_t>(workers) ? 2 : 1;
}

bool are_shares(std::span<const std::int64_t> parts, std::int64_t batch, std::size_t workers) {
  return parts.size() == workers && sum_of(parts) == batch &&
         std::all_of(
             parts.begin(), parts.end(),
             [least = least_share(batch, workers)](std::int64_t part) { return part >= least; });
}

// Each sample goes to the worker that would be done first with it.
std::vector<std::int64_t> fastest_shares(std::int64_t batch, std::span<const WorkTime> times) {
  check(batch >= static_cast<std::int64_t>(times.size()), "a batch of {} for {} workers", batch,
        times.size());
  using Done = std::pair<std::int64_t, std::size_t>;  // when, by whom
  std::priority_queue<Done, std::vector<Done>, std::greater<>> next;
  const std::int64_t least = least_share(batch, times.size());
  for (std::size_t i = 0; i < times.size(); ++i) next.emplace(times[i].of(least + 1), i);
  std::vector<std::int64_t> parts(times.size(), least);
  for (auto left = batch - least * static_cast<std::int64_t>(times.size()); left > 0; --left) {
    const std::size_t worker = next.top().second;
    next.pop();
    ++parts[worker];
    next.emplace(times[worker].of(parts[worker] + 1), worker);
  }
  return parts;
}

std::vector<std::int64_t> better_shares(const std::vector<std::int64_t>& present,
                                        std::span<const WorkTime> times) {
  auto fastest = fastest_shares(sum_of(present), times);
  const std::int64_t now = last_done(present, times), then = last_done(fastest, times);
  return now - then > now / 40 ? fastest : present;
}

}  // namespace asup::train
