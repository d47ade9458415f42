#include "asup/ps/pace/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace asup::ps::pace {

// `patience` and the unit of all seconds is the time in which the workers together do as many even
// leases as there are workers. Of candidates that are equally good, the first is taken.
struct Controller::Candidate {
  const char* name;
  double patience;
  double keep;  // steps
  bool is_balanced;
};

constexpr std::size_t kTogether = 0, kBalanced = 1;  // of these
const Controller::Candidate Controller::kCandidates[] = {
    {"together", 1, 8, false},
    {"together, balanced", 1, 8, true},
    {"together, balanced, patient", 16, 8, true},
    {"together, patient", 16, 8, false},
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
constexpr double kOtherLengths = 1.05;  // a step that is so much longer is worth other lengths
constexpr double kOtherUnit = 1.25;     // a change of times that is worth other patience
constexpr double kEnd = 0.2;        // share of the work in which staleness counts more and more,
constexpr double kWeightAtEnd = 5;  // up to this

constexpr double kUneven = 1.8;  // times that differ by more than a few leases' jitter

constexpr double kNews = 1.05;  // a change of times at which candidates are compared again
constexpr int kLooks = 8;       // and how often nothing is done where there is none

double weight_of(double left) {
  return 1 + (kWeightAtEnd - 1) * std::clamp((kEnd - left) / kEnd, 0.0, 1.0);
}

// Whether other lengths would end a step clearly sooner than those of the last choice.
bool are_worth_changing(const Workers& workers, const std::map<int, double>& lengths,
                        const Choice& last) {
  if (lengths.size() != last.workers.size()) return true;
  double before = 0, now = 0;
  for (std::size_t i = 0; i < last.workers.size(); ++i) {
    const auto found = workers.find(last.workers[i]);
    if (found == workers.end()) return true;
    const Measured& worker = found->second;
    before = std::max(before, worker.typical * worker.factor(last.lengths[i]));
    now = std::max(now, worker.typical * worker.factor(lengths.at(found->first)));
  }
  return before > now * kOtherLengths;
}

}  // namespace

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
  // What a step takes, longer where its gradients are late.
  double seconds_of_step(const Scored& scored) const {
    return static_cast<double>(even_.size()) / (scored.score * summed_);
  }

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

namespace {

bool are_settled(const Situation& situation) {
  return std::ranges::all_of(situation.workers,
                             [](const auto& worker) { return worker.second.timing->is_settled(); });
}

bool are_uneven(const Workers& workers) {
  const auto [fastest, slowest] = std::ranges::minmax_element(
      workers, {}, [](const auto& worker) { return worker.second.typical; });
  return slowest->second.typical > kUneven * fastest->second.typical;
}

}  // namespace

// A few times tell little of jitter, but enough of workers that are far from equally fast: they get
// balanced leases at once. Until there are more times, all wait for one until it is overdue: late
// gradients do most harm in the first steps.
Controller::Scored Controller::first_choice(const Comparison& comparison, const Workers& workers,
                                            bool can_balance) const {
  Scored first = comparison.score(can_balance && are_uneven(workers) ? kBalanced : kTogether);
  const double others = static_cast<double>(workers.size()) - 1;
  first.bounds.patience = std::max(1.0, others * Timing::kFirstMargin) * comparison.unit();
  return first;
}

std::optional<Choice> Controller::decide(const Situation& situation) {
  if (is_frozen_) return std::nullopt;
  const Workers workers = measure(situation.workers);
  if (workers.empty()) return std::nullopt;
  const bool is_settled = are_settled(situation);
  if (is_settled && !has_news(workers)) return std::nullopt;

  const Comparison comparison(workers, situation.can_balance,
                              sensitivity_.gamma() * weight_of(situation.left));
  const Scored current = comparison.score(current_);
  Scored taken = current;
  if (!is_settled) {
    taken = first_choice(comparison, workers, situation.can_balance);
  } else if (Scored best = comparison.best_from(current); is_better(best, current)) {
    taken = std::move(best);
  }
  if (is_settled && !freeze_ && situation.can_leave) {
    const double seconds = comparison.seconds_of_step(taken);
    const auto elsewhere =
        leaving_.look(workers, {seconds, situation.update_seconds, situation.steps_left});
    if (elsewhere) {
      is_frozen_ = true;
      choices_.push_back(make_choice(situation, workers, current, current));
      leave(choices_.back(), *elsewhere, seconds);
      return choices_.back();
    }
  }
  if (freeze_ && is_settled) {
    is_frozen_ = true;
    taken.bounds = without_clock(taken.bounds, workers, taken.lengths);
  } else if (!choices_.empty() && taken.candidate == current_) {
    const Choice& last = choices_.back();
    const bool has_changed = are_worth_changing(workers, taken.lengths, last) ||
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
  const bool is_decided = times_ == 0 && !leaving_.is_likely();
  if (is_all_the_same && is_decided && ++looks_ < kLooks) return false;
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
    choice.exchange = std::max(choice.exchange, worker.exchange);
    choice.exchange_share = std::max(choice.exchange_share, worker.exchange / worker.typical);
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

}  // namespace asup::ps::pace
