#include "asup/data/stratified_order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>

#include "asup/data/random.h"

namespace asup::data {
namespace {

using Samples = std::vector<std::int64_t>;

// By class, each in random order.
std::vector<Samples> shuffled_classes(std::span<const std::int64_t> labels, Random& random) {
  std::map<std::int64_t, Samples> by_label;
  for (std::size_t i = 0; i < labels.size(); ++i)
    by_label[labels[i]].push_back(static_cast<std::int64_t>(i));
  std::vector<Samples> classes;
  for (auto& [label, samples] : by_label) {
    for (std::size_t left = samples.size(); left > 1; --left)
      std::swap(samples[left - 1], samples[random.below(left)]);
    classes.push_back(std::move(samples));
  }
  return classes;
}

// With k classes of N samples, sample j (0 first) of a class of n comes at a time t, 1 to N, with
//   t n / N - j >= d   and   t n / N - j <= 1 - d,   d = 1 / (2k - 2):
// the first and the last such t.
struct Window {
  std::uint64_t first, last;
};
Window window_of(std::uint64_t j, std::uint64_t n, std::uint64_t all, std::uint64_t classes) {
  const std::uint64_t parts = 2 * classes - 2, unit = parts * n;
  // j N / n and (j + 1) N / n as a whole number and a rest, lest products overflow.
  const std::uint64_t low = j * all / n, low_rest = parts * (j * all % n) + all;
  const std::uint64_t high = (j + 1) * all / n, high_rest = parts * ((j + 1) * all % n);
  // A last time below a multiple of N / n: all / unit is taken off.
  const std::uint64_t off = all > high_rest ? (all - high_rest + unit - 1) / unit : 0;
  return {low + (low_rest + unit - 1) / unit,
          high + (off > 0 ? 0 : (high_rest - all) / unit) - off};
}

}  // namespace

std::vector<std::int64_t> stratified_order(std::span<const std::int64_t> labels, std::uint64_t seed,
                                           std::uint64_t epoch) {
  Random random(seed, epoch);
  std::vector<Samples> classes = shuffled_classes(labels, random);
  if (classes.size() <= 1) return classes.empty() ? Samples{} : classes.front();
  // A class waits until its next sample may come, by the first time; then it is ready, by the last
  // time, and by lot among equal ones.
  using Waiting = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;
  using Ready = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  std::vector<std::size_t> taken(classes.size());
  const auto put = [&](std::size_t c) {
    const auto [first, last] =
        window_of(taken[c], classes[c].size(), labels.size(), classes.size());
    waiting.emplace(first, last, c);
  };
  for (std::size_t c = 0; c < classes.size(); ++c) put(c);
  Samples order;
  order.reserve(labels.size());
  while (order.size() < labels.size()) {
    while (!waiting.empty() && std::get<0>(waiting.top()) <= order.size() + 1) {
      const auto [first, last, c] = waiting.top();
      waiting.pop();
      ready.emplace(last, random.next(), c);
    }
    const std::size_t c = std::get<2>(ready.top());
    ready.pop();
    order.push_back(classes[c][taken[c]]);
    if (++taken[c] < classes[c].size()) put(c);
  }
  return order;
}

}  // namespace asup::data
