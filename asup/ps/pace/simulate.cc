#include "asup/ps/pace/simulate.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "asup/base/error.h"
#include "asup/ps/pace/mean.h"

namespace asup::ps::pace {
namespace {

constexpr double kLeasesOfSlowest = 8;  // that are looked at, if it is not too slow
constexpr double kLeasesOfAll = 384;    // where there are many workers, fewer of each will do

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
    pushes_.reserve(workers.size());
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

  // Something that will happen to a worker's lease, the earliest first.
  struct Event {
    double time;
    std::size_t worker, lease;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : worker > other.worker;
    }
  };
  using Events = std::vector<Event>;  // a heap

  static void add(Events& events, const Event& event) {
    events.push_back(event);
    std::push_heap(events.begin(), events.end(), std::greater<>());
  }
  static void remove_first(Events& events) {
    std::pop_heap(events.begin(), events.end(), std::greater<>());
    events.pop_back();
  }

  // An update, if one is due; else what comes next, a push or a time to look again.
  void step() {
    if (is_due()) return update();
    const bool may_lose_patience = !pending_.empty() && patience_ < kForever;
    const double look = may_lose_patience ? next_look() : kForever;
    if (look < pushes_.front().time)
      now_ = look;
    else
      push();
  }

  // When somebody who is at work is next expected or becomes overdue.
  double next_look() {
    const auto is_past = [&](const Event& look) {
      const State& state = states_[look.worker];
      return look.time <= now_ || state.done == kForever || state.leases != look.lease;
    };
    while (!looks_.empty() && is_past(looks_.front())) remove_first(looks_);
    return looks_.empty() ? kForever : looks_.front().time;
  }

  // When it is thought to push: it may be late, and then overdue.
  double next_look_at(const State& state) const {
    if (state.done == kForever) return kForever;
    const double when = now_ < state.expected ? state.expected : state.overdue;
    return now_ < when ? when : kForever;
  }

  bool is_due() {
    if (pending_.empty()) return false;
    if (pushes_.empty()) return true;  // nobody works
    return patience_ < kForever && !is_worth_waiting_on();
  }

  // Mostly the first to come is worth it.
  bool is_worth_waiting_on() {
    const double look = next_look();
    if (look == kForever) return false;
    if (static_cast<double>(pending_.size()) * (look - now_) <= patience_) return true;
    to_come_.clear();
    for (const State& state : states_)
      if (const double when = next_look_at(state); when < kForever) to_come_.push_back(when);
    return is_worth_waiting(pending_.size(), now_, to_come_, patience_);
  }

  void push() {
    now_ = pushes_.front().time;
    const std::size_t id = pushes_.front().worker;
    remove_first(pushes_);
    states_[id].done = kForever;
    if (applied_ - states_[id].applied <= keep_) return pending_.push_back(id);
    if (keep_ > 0 && is_due()) update();  // those that wait do not wait for this one any more
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
    add(pushes_, {state.done, id, state.leases});
    if (patience_ == kForever) return;
    add(looks_, {state.expected, id, state.leases});
    add(looks_, {state.overdue, id, state.leases});
  }

  const std::span<const VirtualWorker> workers_;
  const double patience_;
  const double keep_;  // even leases
  const double end_;
  std::vector<State> states_;
  std::vector<std::size_t> pending_;    // workers whose pushes wait for the update
  std::vector<double> to_come_;         // memory that is used again
  Events pushes_, looks_;               // to come; looks: some that will not, too
  double now_ = 0, applied_ = 0;        // applied: even leases
  double first_ = 0, last_ = 0;         // updates after which, and until which, is counted
  double counted_ = 0, staleness_ = 0;  // even leases, and theirs since, summed up
};

}  // namespace

double simulated_seconds(std::span<const VirtualWorker> workers) {
  double slowest = 0, fastest = kForever;
  for (const VirtualWorker& worker : workers) {
    check(!worker.seconds.empty(), "a virtual worker without a time");
    const double seconds = mean_of(worker.seconds);
    check(seconds > 0, "a virtual worker that takes {} s for a lease", seconds);
    slowest = std::max(slowest, seconds);
    fastest = std::min(fastest, seconds);
  }
  const double leases = std::clamp(kLeasesOfAll / static_cast<double>(workers.size()), 6.0, 64.0);
  return std::min(kLeasesOfSlowest * slowest + 16 * fastest, leases * fastest);
}

Prediction simulate(const Bounds& bounds, std::span<const VirtualWorker> workers) {
  check(!workers.empty(), "a simulation of no workers");
  check(bounds.gather == kAll && bounds.spare == 0 && bounds.staleness == kForever,
        "a simulation of bounds that do not gather all");
  return Simulation(bounds, workers).run();
}

}  // namespace asup::ps::pace
