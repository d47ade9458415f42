#include "asup/ps/pace/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace asup::ps::pace {
namespace {

constexpr double kSamples = 1000;  // of an even lease

// The pacer itself, with the same workers.
class Reference {
 public:
  Reference(const Bounds& bounds, const std::vector<VirtualWorker>& workers)
      : workers_(workers),
        pacer_(bounds, kSamples * static_cast<double>(workers.size())),
        states_(workers.size()),
        end_(simulated_seconds(workers)) {}

  Prediction run() {
    for (std::size_t id = 0; id < workers_.size(); ++id)
      carry_out(pacer_.arrived(static_cast<int>(id), 0));
    while (now_ < end_) step();
    const double span = last_ - first_;
    return span > 0 ? Prediction{applied_ / span, staleness_ / applied_} : Prediction{};
  }

 private:
  struct State {
    double done = kForever;
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
    now_ = next->done;
    next->done = kForever;
    const auto id = static_cast<std::size_t>(next - states_.begin());
    const auto samples = static_cast<std::uint64_t>(std::llround(kSamples * workers_[id].length));
    carry_out(pacer_.pushed({.worker = static_cast<int>(id),
                             .number = next->pushes++,
                             .version = next->version,
                             .samples = samples},
                            now_));
  }

  void carry_out(const Commands& commands) {
    for (const Command& command : commands) {
      if (const auto* update = std::get_if<Update>(&command)) count(*update);
      if (const auto* go = std::get_if<Go>(&command)) begin(go->worker);
    }
  }

  void count(const Update& update) {
    if (now_ >= end_) return;
    if (now_ < end_ * kSimulatedWarmUp) {
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

  void begin(int id) {
    State& state = states_[static_cast<std::size_t>(id)];
    const VirtualWorker& worker = workers_[static_cast<std::size_t>(id)];
    state.version = pacer_.version();
    state.done = now_ + worker.seconds[state.leases++ % worker.seconds.size()];
    pacer_.expect(id, now_ + worker.expected, now_ + worker.overdue);
  }

  const std::vector<VirtualWorker>& workers_;
  Pacer pacer_;
  std::vector<State> states_;
  const double end_;
  double now_ = 0, first_ = 0, last_ = 0;
  double applied_ = 0, staleness_ = 0;
};

// Any speeds, jitter and pauses; lengths that are whole samples.
std::vector<VirtualWorker> some_workers(std::mt19937& random) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  std::vector<VirtualWorker> workers(1 + random() % 20);
  const double jitter = uniform(0, 0.3), pauses = uniform(0, 0.2);
  for (VirtualWorker& worker : workers) {
    const double typical = uniform(0.2, 3);
    for (std::size_t i = 0; i < 1 + random() % 32; ++i)
      worker.seconds.push_back(typical * uniform(1 - jitter, 1 + jitter) +
                               (uniform(0, 1) < pauses ? 5 : 0));
    worker.expected = typical;
    worker.overdue = typical * uniform(1.1, 1.5);
    worker.length = std::round(uniform(0.05, 4) * kSamples) / kSamples;
  }
  return workers;
}

TEST(Simulate, DoesAsThePacer) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const auto workers = some_workers(random);
    const double patience = std::array{0.0, 0.1, 0.5, 1.0, 3.0, kForever}[random() % 6];
    const Bounds bounds{.gather = kAll,
                        .keep = std::array{0.0, 0.5, 8.0, kForever}[random() % 4],
                        .patience = patience};
    const Prediction expected = Reference(bounds, workers).run(), found = simulate(bounds, workers);
    EXPECT_NEAR(found.speed, expected.speed, 1e-9 * expected.speed) << round;
    EXPECT_NEAR(found.staleness, expected.staleness, 1e-9 * (1 + expected.staleness)) << round;
  }
}

TEST(Simulate, KnowsWhatIsPlain) {
  const VirtualWorker fast{{1}, 1, 1.1}, slow{{4}, 4, 4.4};
  const std::vector<VirtualWorker> workers{fast, fast, fast, slow};
  const Prediction together = simulate({.gather = kAll}, workers);
  EXPECT_NEAR(together.speed, 1, 1e-9);
  EXPECT_EQ(together.staleness, 0);
  const Prediction at_once = simulate({.gather = kAll, .patience = 0}, workers);
  EXPECT_NEAR(at_once.speed, 3.25, 0.1);
  EXPECT_GT(at_once.staleness, 0.15);
}

}  // namespace
}  // namespace asup::ps::pace
