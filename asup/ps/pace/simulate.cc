#include "asup/ps/pace/simulate.h"

#include <algorithm>
#include <numeric>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

constexpr double kLeasesOfSlowest = 8;  // that are looked at, if it is not too slow
constexpr double kLeasesOfAll = 512;    // where there are many workers, fewer of each will do

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class Simulation {
 public:
  Simulation(const Bounds& bounds, std::span<const VirtualWorker> workers)
      : workers_(workers),
        patience_(bounds.patience),
        keep_(bounds.keep * static_cast<double>(workers.size())),
        end_(simulated_seconds(workers)),
        states_(workers.size()) {
    pending_.reserve(workers.size());
    to_come_.reserve(workers.size());
  }

  Prediction run() {
    for (std::size_t id = 0; id < workers_.size(); ++id) begin(id);
    while (now_ < end_) step();
    const double span = last_ - first_;
    if (span <= 0) return {};
    return {counted_ / span, staleness_ / counted_ / static_cast<double>(workers_.size())};
  }

 private:
  struct State {
    double done = kForever;  // when it pushes; for ever: it is not at work
    double expected = 0, overdue = 0;
    double applied = 0;  // even leases, when it got its parameters
    std::size_t leases = 0;
  };

  // An update, if one is due; else what comes next, a push or a time to look again.
  void step() {
    look_ahead();
    if (is_due()) return update();
    const bool may_lose_patience = !pending_.empty() && patience_ < kForever;
    if (may_lose_patience && next_look_ < next_push_)
      now_ = next_look_;
    else
      push();
  }

  void look_ahead() {
    next_push_ = next_look_ = kForever;
    for (std::size_t id = 0; id < states_.size(); ++id) {
      const State& state = states_[id];
      if (state.done < next_push_) {
        next_push_ = state.done;
        next_ = id;
      }
      next_look_ = std::min(next_look_, next_look_at(state));
    }
  }

  // When it is thought to push: it may be late, and then overdue.
  double next_look_at(const State& state) const {
    if (state.done == kForever) return kForever;
    const double when = now_ < state.expected ? state.expected : state.overdue;
    return now_ < when ? when : kForever;
  }

  bool is_due() {
    if (pending_.empty()) return false;
    if (next_push_ == kForever) return true;  // nobody works
    return patience_ < kForever && !is_worth_waiting_on();
  }

  // Mostly the first to come is worth it.
  bool is_worth_waiting_on() {
    if (next_look_ == kForever) return false;
    if (static_cast<double>(pending_.size()) * (next_look_ - now_) <= patience_) return true;
    to_come_.clear();
    for (const State& state : states_)
      if (const double when = next_look_at(state); when < kForever) to_come_.push_back(when);
    return is_worth_waiting(pending_.size(), now_, to_come_, patience_);
  }

  void push() {
    now_ = next_push_;
    const std::size_t id = next_;
    states_[id].done = kForever;
    if (applied_ - states_[id].applied <= keep_) return pending_.push_back(id);
    if (keep_ > 0) {  // those that wait do not wait for this one any more
      look_ahead();
      if (is_due()) update();
    }
    begin(id);
  }

  void update() {
    const bool counts = now_ >= end_ * kSimulatedWarmUp;
    (counts ? last_ : first_) = now_;
    const double before = applied_;
    for (const std::size_t id : pending_) {
      const double length = workers_[id].length;
      applied_ += length;
      if (!counts) continue;
      counted_ += length;
      staleness_ += length * (before - states_[id].applied);
    }
    for (const std::size_t id : pending_) begin(id);
    pending_.clear();
  }

  void begin(std::size_t id) {
    State& state = states_[id];
    const VirtualWorker& worker = workers_[id];
    state.applied = applied_;
    state.done = now_ + worker.seconds[state.leases++ % worker.seconds.size()];
    state.expected = now_ + worker.expected;
    state.overdue = now_ + worker.overdue;
  }

  const std::span<const VirtualWorker> workers_;
  const double patience_;
  const double keep_;  // even leases
  const double end_;
  std::vector<State> states_;
  std::vector<std::size_t> pending_;    // workers whose pushes wait for the update
  std::vector<double> to_come_;         // memory that is used again
  double now_ = 0, applied_ = 0;        // applied: even leases
  std::size_t next_ = 0;                // who pushes next,
  double next_push_ = 0;                // when,
  double next_look_ = 0;                // and when somebody is expected or becomes overdue
  double first_ = 0, last_ = 0;         // updates after which, and until which, is counted
  double counted_ = 0, staleness_ = 0;  // even leases, and theirs since, summed up
};

}  // namespace

double simulated_seconds(std::span<const VirtualWorker> workers) {
  double slowest = 0, fastest = kForever;
  for (const VirtualWorker& worker : workers) {
    check(!worker.seconds.empty(), "a virtual worker without a time");
    const double seconds = mean(worker.seconds);
    check(seconds > 0, "a virtual worker that takes {} s for a lease", seconds);
    slowest = std::max(slowest, seconds);
    fastest = std::min(fastest, seconds);
  }
  const double leases = std::clamp(kLeasesOfAll / static_cast<double>(workers.size()), 8.0, 64.0);
  return std::min(kLeasesOfSlowest * slowest + 16 * fastest, leases * fastest);
}

Prediction simulate(const Bounds& bounds, std::span<const VirtualWorker> workers) {
  check(!workers.empty(), "a simulation of no workers");
  check(bounds.gather == kAll && bounds.spare == 0 && bounds.staleness == kForever,
        "a simulation of bounds that do not gather all");
  return Simulation(bounds, workers).run();
}

}  // namespace asup::ps::pace
