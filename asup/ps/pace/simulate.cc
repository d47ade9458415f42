#include "asup/ps/pace/simulate.h"

#include <algorithm>
#include <numeric>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

constexpr double kLeasesOfSlowest = 8;  // that are looked at, if it is not too slow
constexpr double kLeasesOfAll = 512;    // where there are many workers, fewer of each will do
constexpr double kWarmUp = 0.25;        // of the time, in which workers fall out of step
constexpr double kSamples = 1000;       // of an even lease

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class Simulation {
 public:
  Simulation(const Bounds& bounds, std::span<const VirtualWorker> workers)
      : workers_(workers),
        pacer_(bounds, kSamples * static_cast<double>(workers.size())),
        states_(workers.size()) {
    double slowest = 0, fastest = kForever;
    for (const VirtualWorker& worker : workers) {
      check(!worker.seconds.empty(), "a virtual worker without a time");
      const double seconds = mean(worker.seconds);
      check(seconds > 0, "a virtual worker that takes {} s for a lease", seconds);
      slowest = std::max(slowest, seconds);
      fastest = std::min(fastest, seconds);
    }
    const double leases =
        std::clamp(kLeasesOfAll / static_cast<double>(workers.size()), 16.0, 64.0);
    end_ = std::min(kLeasesOfSlowest * slowest + 16 * fastest, leases * fastest);
  }

  Prediction run() {
    for (std::size_t id = 0; id < workers_.size(); ++id)
      carry_out(pacer_.arrived(static_cast<int>(id), 0));
    while (now_ < end_) step();
    const double span = last_ - first_;
    return span > 0 ? Prediction{applied_ / span, staleness_ / applied_} : Prediction{};
  }

 private:
  struct State {
    double done = kForever;  // when it pushes
    std::size_t leases = 0;
    std::uint64_t pushes = 0, version = 0;
  };

  void step() {
    const auto next =
        std::min_element(states_.begin(), states_.end(),
                         [](const State& a, const State& b) { return a.done < b.done; });
    if (const auto wake = pacer_.wake(); wake && *wake < next->done) {
      now_ = std::max(now_, *wake);
      return carry_out(pacer_.tick(now_));
    }
    check(next->done < kForever, "nobody works, and nobody is let go");
    now_ = next->done;
    next->done = kForever;
    const auto id = static_cast<int>(next - states_.begin());
    carry_out(pacer_.pushed(
        {.worker = id, .number = next->pushes++, .version = next->version, .samples = samples(id)},
        now_));
  }

  void carry_out(const Commands& commands) {
    for (const Command& command : commands) {
      if (const auto* update = std::get_if<Update>(&command)) count(*update);
      if (const auto* go = std::get_if<Go>(&command)) begin(go->worker);
    }
  }

  void count(const Update& update) {
    if (now_ < end_ * kWarmUp) {
      first_ = now_;
      return;
    }
    last_ = now_;
    for (const Update::Part& part : update.parts) {
      const double length = workers_[static_cast<std::size_t>(part.worker)].length;
      applied_ += length;
      staleness_ += length * part.staleness.steps;
    }
  }

  std::uint64_t samples(int id) const {
    return static_cast<std::uint64_t>(kSamples * workers_[static_cast<std::size_t>(id)].length);
  }

  void begin(int id) {
    State& state = states_[static_cast<std::size_t>(id)];
    const VirtualWorker& worker = workers_[static_cast<std::size_t>(id)];
    state.version = pacer_.version();
    state.done = now_ + worker.seconds[state.leases++ % worker.seconds.size()];
    pacer_.expect(id, now_ + worker.expected, now_ + worker.overdue);
  }

  const std::span<const VirtualWorker> workers_;
  Pacer pacer_;
  std::vector<State> states_;
  double now_ = 0, end_ = 0;
  double first_ = 0, last_ = 0;         // updates after which, and until which, is counted
  double applied_ = 0, staleness_ = 0;  // even leases, and their steps summed up
};

}  // namespace

Prediction simulate(const Bounds& bounds, std::span<const VirtualWorker> workers) {
  check(!workers.empty(), "a simulation of no workers");
  return Simulation(bounds, workers).run();
}

}  // namespace asup::ps::pace
