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
constexpr double kShortest = 1.0 / 64;  // of balanced leases
constexpr double kOtherLengths = 1.15;  // a change of lengths that is worth telling
constexpr double kOtherUnit = 1.25;     // and of times
constexpr double kEnd = 0.2;        // share of the work in which staleness counts more and more,
constexpr double kWeightAtEnd = 5;  // up to this

constexpr double kNews = 1.05;  // a change of times at which candidates are compared again
constexpr int kLooks = 8;       // and how often nothing is done where there is none

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

Measured::Measured(const Timing& timing)
    : typical(timing.typical()),
      overdue(timing.overdue()),
      fixed(timing.fixed()),
      seconds(timing.seconds()) {
  mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
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

// Candidates by the same measurements.
class Controller::Comparison {
 public:
  Comparison(const Workers& workers, bool can_balance, double gamma)
      : lengths_(balanced_lengths(workers)), can_balance_(can_balance), gamma_(gamma) {
    double rate = 0;
    for (const auto& [id, worker] : workers) {
      const double length = lengths_.at(id), factor = worker.factor(length);
      even_.push_back({worker.seconds, worker.typical, worker.overdue, 1});
      balanced_.push_back(
          {worker.seconds, worker.typical * factor, worker.overdue * factor, length});
      for (double& seconds : balanced_.back().seconds) seconds *= factor;
      summed_ += 1 / worker.mean;
      rate += 1 / worker.typical;
    }
    unit_ = static_cast<double>(workers.size()) / rate;
  }

  double unit() const { return unit_; }

  Scored score(std::size_t number) const {
    const Candidate& candidate = kCandidates[number];
    Scored scored;
    scored.candidate = number;
    scored.bounds = {
        .gather = kAll, .keep = candidate.keep, .patience = candidate.patience * unit_};
    const bool is_balanced = candidate.is_balanced && can_balance_;
    for (const auto& [id, length] : lengths_) scored.lengths[id] = is_balanced ? length : 1;
    const Prediction predicted = simulate(scored.bounds, is_balanced ? balanced_ : even_);
    scored.speed = predicted.speed / summed_;
    scored.staleness = predicted.staleness;
    scored.score = scored.speed / (1 + gamma_ * scored.staleness);
    return scored;
  }

  // Looks no further than to one so good that none could be better by much.
  Scored best_from(const Scored& current) const {
    Scored best = current;
    for (std::size_t i = 0; i < std::size(kCandidates) && best.score * kSlightly < 1; ++i) {
      if (i == current.candidate) continue;
      Scored other = score(i);
      if (other.score > best.score) best = std::move(other);
    }
    return best;
  }

 private:
  const std::map<int, double> lengths_;
  const bool can_balance_;
  const double gamma_;
  std::vector<VirtualWorker> even_, balanced_;
  double summed_ = 0;  // speed, in even leases a second
  double unit_ = 0;
};

std::optional<Choice> Controller::decide(const Situation& situation) {
  if (is_frozen_ || situation.workers.empty()) return std::nullopt;
  // Who has not pushed yet is taken to be like the others.
  const Timing* example = nullptr;
  bool are_settled = true;
  for (const auto& [id, timing] : situation.workers) {
    if (timing->is_known()) example = timing;
    are_settled = are_settled && timing->is_settled();
  }
  if (example == nullptr) return std::nullopt;
  Workers workers;
  for (const auto& [id, timing] : situation.workers)
    workers.emplace(id, timing->is_known() ? *timing : *example);

  if (are_settled && !has_news(workers)) return std::nullopt;

  const Comparison comparison(workers, situation.can_balance,
                              sensitivity_.gamma() * weight_of(situation.left));
  const Scored current = comparison.score(current_);
  Scored taken = current;
  if (are_settled) {
    Scored best = comparison.best_from(current);
    if (is_better(best, current)) taken = std::move(best);
  } else {
    // A few times tell little. Until there are more, all wait for one until it is overdue: late
    // gradients do most harm in the first steps.
    const double others = static_cast<double>(workers.size()) - 1;
    taken.bounds.patience = std::max(1.0, others * Timing::kFirstMargin) * comparison.unit();
  }
  if (freeze_ && are_settled) {
    is_frozen_ = true;
    taken.bounds = without_clock(taken.bounds, workers, taken.lengths);
  } else if (!choices_.empty() && taken.candidate == current_) {
    const Choice& last = choices_.back();
    const bool has_changed = are_apart(taken.lengths, last.workers, last.lengths) ||
                             taken.bounds.patience > last.bounds.patience * kOtherUnit ||
                             taken.bounds.patience * kOtherUnit < last.bounds.patience;
    if (!has_changed) return std::nullopt;
  }
  choices_.push_back(make_choice(situation, workers, taken, current));
  sensitivity_.cut();
  current_ = taken.candidate;
  return choices_.back();
}

Bounds without_clock(const Bounds& bounds, const Workers& workers,
                     const std::map<int, double>& lengths) {
  std::vector<double> times;
  for (const auto& [id, worker] : workers)
    times.push_back(worker.typical * worker.factor(lengths.at(id)));
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
bool Controller::has_news(const Workers& workers) {
  std::map<int, Seen> now;
  for (const auto& [id, worker] : workers) now[id] = {worker.typical, worker.overdue, worker.mean};
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

bool Controller::is_better(const Scored& best, const Scored& current) {
  const double gain = best.score / current.score;
  if (gain <= kSlightly || best.candidate != favourite_) times_ = 0;
  favourite_ = best.candidate;
  if (gain > kSlightly) ++times_;
  return gain > kClearly || times_ >= kTimes;
}

Choice Controller::make_choice(const Situation& situation, const Workers& workers,
                               const Scored& taken, const Scored& before) const {
  Choice choice;
  choice.time = situation.now;
  choice.step = situation.step;
  choice.version = situation.version;
  choice.bounds = taken.bounds;
  for (const auto& [id, worker] : workers) {
    choice.workers.push_back(id);
    choice.lengths.push_back(taken.lengths.at(id));
    choice.seconds.push_back(worker.typical);
  }
  choice.sensitivity = sensitivity_.gamma();
  choice.weight = weight_of(situation.left);
  choice.speed = taken.speed;
  choice.staleness = taken.staleness;
  choice.score = taken.score;
  choice.score_before = before.score;
  choice.samples = situation.samples;
  choice.measured_staleness = situation.staleness;
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
