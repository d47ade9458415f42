#include "asup/ps/pace/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace asup::ps::pace {

// `patience` and the unit of all seconds is the time in which the workers together do as many even
// leases as there are workers. Of candidates that are equally good, the first is taken.
struct Controller::Candidate {
  const char* name;
  double patience;
  double keep;  // steps
  bool is_balanced;
};

const Controller::Candidate Controller::kCandidates[] = {
    {"together", 1, 8, false},
    {"together, balanced", 1, 8, true},
    {"together, balanced, patient", 3, 8, true},
    {"together, patient", 3, 8, false},
    {"hardly waiting", 0.5, 8, false},
    {"hardly waiting", 0.25, 8, false},
    {"hardly waiting", 0.1, 8, false},
    {"together, late ones dropped", 1, 0, false},
    {"nobody waits", 0, 8, false},
};

struct Controller::Scored {
  std::size_t candidate = 0;
  Bounds bounds;
  std::map<int, double> lengths;
  double speed = 0;  // as a share of the summed speed
  double staleness = 0;
  double score = 0;
};

namespace {

constexpr double kClearly = 1.25;   // a gain that is taken at once
constexpr double kSlightly = 1.03;  // and one that must show this often
constexpr int kTimes = 3;
constexpr double kShortest = 0.125;  // of balanced leases
constexpr double kLongest = 2;
constexpr double kOtherLengths = 1.15;  // a change of lengths that is worth telling
constexpr double kOtherUnit = 1.25;     // and of times
constexpr double kEnd = 0.2;        // share of the work in which staleness counts more and more,
constexpr double kWeightAtEnd = 5;  // up to this

constexpr double kNews = 1.05;  // a change of times at which candidates are compared again
constexpr int kLooks = 8;       // and how often nothing is done where there is none

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double weight_of(double left) {
  return 1 + (kWeightAtEnd - 1) * std::clamp((kEnd - left) / kEnd, 0.0, 1.0);
}

bool are_apart(const std::map<int, double>& a, const std::vector<int>& workers,
               const std::vector<double>& b) {
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const auto found = a.find(workers[i]);
    if (found == a.end()) return true;
    if (found->second > b[i] * kOtherLengths || b[i] > found->second * kOtherLengths) return true;
  }
  return a.size() != workers.size();
}

// The worker's pace beside the fastest one's, in words.
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

}  // namespace

std::map<int, double> balanced_lengths(const std::map<int, const Timing*>& workers) {
  std::map<int, double> lengths;
  double low = 0, high = 0;
  for (const auto& [id, timing] : workers)
    high = std::max(high, timing->typical() * timing->factor(kLongest));
  // The time in which all are done: longer leases take longer, so halving finds it.
  for (int round = 0; round < 50; ++round) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const auto& [id, timing] : workers)
      sum += lengths[id] = std::clamp(timing->length_for(middle), kShortest, kLongest);
    (sum < static_cast<double>(workers.size()) ? low : high) = middle;
  }
  return lengths;
}

std::optional<Choice> Controller::decide(const Situation& situation) {
  if (is_frozen_ || situation.workers.empty()) return std::nullopt;
  // Who has not pushed yet is taken to be like the others.
  Situation known = situation;
  const Timing* example = nullptr;
  bool are_settled = true;
  for (const auto& [id, timing] : known.workers) {
    if (timing->is_known()) example = timing;
    are_settled = are_settled && timing->is_settled();
  }
  if (example == nullptr) return std::nullopt;
  for (auto& [id, timing] : known.workers)
    if (!timing->is_known()) timing = example;

  if (are_settled && !has_news(known)) return std::nullopt;

  double rate = 0;
  for (const auto& [id, timing] : known.workers) rate += 1 / timing->typical();
  const double unit = static_cast<double>(known.workers.size()) / rate;
  const auto scored = score(known, unit, sensitivity_.gamma() * weight_of(known.left));
  const Scored& current = scored[current_];
  const auto best = std::max_element(
      scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.score < b.score; });

  // A few times tell little. Until there are more, all wait for one until it is overdue: late
  // gradients do most harm in the first steps.
  Scored taken = are_settled && is_better(*best, current) ? *best : current;
  if (!are_settled) {
    const double others = static_cast<double>(known.workers.size()) - 1;
    taken.bounds.patience = std::max(1.0, others * Timing::kFirstMargin) * unit;
  }
  if (freeze_ && are_settled) {
    is_frozen_ = true;
    taken.bounds = without_clock(taken.bounds, known.workers, taken.lengths);
  } else if (!choices_.empty() && taken.candidate == current_) {
    const Choice& last = choices_.back();
    const bool has_changed = are_apart(taken.lengths, last.workers, last.lengths) ||
                             taken.bounds.patience > last.bounds.patience * kOtherUnit ||
                             taken.bounds.patience * kOtherUnit < last.bounds.patience;
    if (!has_changed) return std::nullopt;
  }
  choices_.push_back(make_choice(known, taken, current));
  sensitivity_.cut();
  current_ = taken.candidate;
  return choices_.back();
}

Bounds without_clock(const Bounds& bounds, const std::map<int, const Timing*>& workers,
                     const std::map<int, double>& lengths) {
  std::vector<double> times;
  for (const auto& [id, timing] : workers)
    times.push_back(timing->typical() * timing->factor(lengths.at(id)));
  std::sort(times.begin(), times.end());
  std::size_t here = 1;
  while (here < times.size() &&
         is_worth_waiting(here, times[here - 1],
                          {times.begin() + static_cast<std::ptrdiff_t>(here), times.end()},
                          bounds.patience))
    ++here;
  return {.gather = kAll, .spare = static_cast<int>(times.size() - here), .keep = bounds.keep};
}

// Whether anything is clearly other than when candidates were last compared. That takes a while
// with many workers, and mostly nothing is.
bool Controller::has_news(const Situation& situation) {
  std::map<int, Seen> now;
  for (const auto& [id, timing] : situation.workers)
    now[id] = {timing->typical(), timing->overdue(), mean(timing->seconds())};
  const auto is_same = [](double a, double b) { return a < b * kNews && b < a * kNews; };
  const auto is_same_worker = [&](const auto& a, const auto& b) {
    return a.first == b.first && is_same(a.second.typical, b.second.typical) &&
           is_same(a.second.overdue, b.second.overdue) && is_same(a.second.mean, b.second.mean);
  };
  const bool is_all_the_same = now.size() == seen_.size() &&
                               std::equal(now.begin(), now.end(), seen_.begin(), is_same_worker);
  if (is_all_the_same && times_ == 0 && ++looks_ < kLooks) return false;
  seen_ = std::move(now);
  looks_ = 0;
  return true;
}

std::vector<Controller::Scored> Controller::score(const Situation& situation, double unit,
                                                  double gamma) const {
  const auto lengths = balanced_lengths(situation.workers);
  std::vector<VirtualWorker> even;
  double summed = 0;
  for (const auto& [id, timing] : situation.workers) {
    even.push_back({timing->seconds(), timing->typical(), timing->overdue(), 1});
    summed += 1 / mean(even.back().seconds);
  }
  std::vector<VirtualWorker> balanced = even;
  auto worker = balanced.begin();
  for (const auto& [id, timing] : situation.workers) {
    const double factor = timing->factor(lengths.at(id));
    for (double& seconds : worker->seconds) seconds *= factor;
    worker->expected *= factor;
    worker->overdue *= factor;
    worker++->length = lengths.at(id);
  }

  std::vector<Scored> all;
  for (const Candidate& candidate : kCandidates) {
    Scored scored;
    scored.candidate = all.size();
    scored.bounds = {.gather = kAll, .keep = candidate.keep, .patience = candidate.patience * unit};
    const bool is_balanced = candidate.is_balanced && situation.can_balance;
    for (const auto& [id, length] : lengths) scored.lengths[id] = is_balanced ? length : 1;
    const Prediction predicted = simulate(scored.bounds, is_balanced ? balanced : even);
    scored.speed = predicted.speed / summed;
    scored.staleness = predicted.staleness;
    scored.score = scored.speed / (1 + gamma * scored.staleness);
    all.push_back(std::move(scored));
  }
  return all;
}

bool Controller::is_better(const Scored& best, const Scored& current) {
  const double gain = best.score / current.score;
  if (gain <= kSlightly || best.candidate != favourite_) times_ = 0;
  favourite_ = best.candidate;
  if (gain > kSlightly) ++times_;
  return gain > kClearly || times_ >= kTimes;
}

Choice Controller::make_choice(const Situation& situation, const Scored& taken,
                               const Scored& before) const {
  Choice choice;
  choice.time = situation.now;
  choice.step = situation.step;
  choice.version = situation.version;
  choice.bounds = taken.bounds;
  for (const auto& [id, timing] : situation.workers) {
    choice.workers.push_back(id);
    choice.lengths.push_back(taken.lengths.at(id));
    choice.seconds.push_back(timing->typical());
  }
  choice.sensitivity = sensitivity_.gamma();
  choice.weight = weight_of(situation.left);
  choice.speed = taken.speed;
  choice.staleness = taken.staleness;
  choice.score = taken.score;
  choice.score_before = before.score;
  choice.name = kCandidates[taken.candidate].name;
  if (is_frozen_) choice.name += ", frozen";
  choice.reason = describe_speeds(choice.workers, choice.seconds);
  if (choices_.empty())
    choice.reason = "the first choice: " + choice.reason;
  else if (taken.candidate == before.candidate)
    choice.reason = "times have changed: " + choice.reason;
  else
    choice.reason +=
        fmt::format("; instead of '{}' at speed {:.2f} and {:.2f} steps of staleness",
                    kCandidates[before.candidate].name, before.speed, before.staleness);
  return choice;
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
