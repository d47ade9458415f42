#include "asup/ps/pace/controller.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/ps/pace/cluster.h"

namespace asup::ps::pace {
namespace {

using ::testing::HasSubstr;

constexpr int kWorkers = 4;

// How many times longer than usual a worker takes for a lease that it begins at `now`.
using Slowness = std::function<double(int worker, double now)>;

struct Outcome {
  double speed = 0;      // samples applied, as a share of what all workers could have done
  double staleness = 0;  // mean of a sample, in steps
  PaceReport report;
};

// Virtual workers whose even lease takes a second, but for `slow` and a jitter of some percent, and
// of which a part of `fixed` does not grow with the length.
class Scene {
 public:
  explicit Scene(Slowness slow, double jitter = 0.03, double fixed = 0.1)
      : slow_(std::move(slow)), jitter_(jitter), fixed_(fixed) {}

  Cluster run(const Options& pace, double until, std::uint64_t steps = 1'000'000) const {
    SchedulerOptions options;
    options.workers = kWorkers;
    options.pace = pace;
    Workload work;
    work.steps = steps;
    work.batch = 256;
    work.steps_per_epoch = steps;
    options.work = work;
    std::mt19937 random(11);
    Cluster cluster(options, [=, this](int worker, double length, double now) mutable {
      const double noise = 2e-3 * static_cast<double>(random() % 1001) - 1;
      return slow_(worker, now) * (1 + jitter_ * noise) * (fixed_ + (1 - fixed_) * length);
    });
    cluster.run(until);
    return cluster;
  }

  Outcome outcome(Cluster& cluster, double from, double to) const {
    double possible = 0;
    for (int worker = 0; worker < kWorkers; ++worker)
      for (double time = from; time < to; time += 0.01) possible += 0.01 / slow_(worker, time);
    const Cluster::Span span = cluster.span(from, to);
    return {span.samples / 64 / possible, span.staleness / span.samples, cluster.head().report()};
  }
  Outcome outcome(const Options& pace, double until) const {
    Cluster cluster = run(pace, until);
    return outcome(cluster, 0, until);
  }

 private:
  const Slowness slow_;
  const double jitter_, fixed_;
};

const Options kAsup{.kind = Kind::adaptive};
const Options kFrozen{.kind = Kind::adaptive, .freeze = true};
const Options kBsp{.kind = Kind::bsp};
const Options kAsp{.kind = Kind::asp};

double equal(int, double) { return 1; }
double one_slow(int worker, double) { return worker == 2 ? 4 : 1; }
double slow_for_a_while(int worker, double now) {
  return worker == 2 && now > 100 && now < 200 ? 4 : 1;
}

TEST(Controller, EqualWorkersGoTogether) {
  const Scene scene(equal);
  const Outcome asup = scene.outcome(kAsup, 300), bsp = scene.outcome(kBsp, 300);
  EXPECT_EQ(asup.staleness, 0);
  EXPECT_GE(asup.speed, 0.97 * bsp.speed);
  EXPECT_LE(asup.report.choices.size(), 2u);  // it does not flap
}

TEST(Controller, OddFirstLeasesLeaveNobodyBehind) {
  for (const int workers : {2, 4, 8}) {
    SchedulerOptions options;
    options.workers = workers;
    options.pace = kAsup;
    std::map<int, int> leases;
    Cluster cluster(options, [&](int worker, double, double) {
      const int lease = leases[worker]++;
      if (lease == 0) return 2.0;  // all that is done for the first time
      return lease <= 3 && worker == lease % workers ? 1.25 : 1.0;
    });
    cluster.run(20);
    EXPECT_EQ(cluster.span(0, 20).staleness, 0) << workers;
  }
}

TEST(Controller, OneSlowWorkerCostsNeitherSpeedNorStaleness) {
  for (const double fixed : {0.0, 0.1, 0.5}) {
    const Scene scene(one_slow, 0.03, fixed);
    const Outcome asup = scene.outcome(kAsup, 300), asp = scene.outcome(kAsp, 300);
    EXPECT_GE(asup.speed, 0.95) << fixed;
    EXPECT_LE(asup.staleness, 0.05) << fixed;
    EXPECT_NEAR(scene.outcome(kBsp, 300).speed, 0.31, 0.01);
    EXPECT_GE(asp.staleness, 0.7);  // what speed costs otherwise
  }
}

TEST(Controller, OneFastWorkerDoesAsMuchMore) {
  const auto one_fast = [](int worker, double) { return worker == 1 ? 0.125 : 1; };
  const Outcome asup = Scene(one_fast).outcome(kAsup, 300);
  EXPECT_GE(asup.speed, 0.95);
  EXPECT_LE(asup.staleness, 0.02);
}

TEST(Controller, SpeedsFarApartAreBalancedFromTheFirstLeasesOn) {
  const auto slow = [](int worker) { return static_cast<double>(1 << worker); };
  for (const double at_first : {0.0, 1.0}) {  // seconds more for a first lease
    SchedulerOptions options;
    options.workers = kWorkers;
    options.pace = kAsup;
    options.work = Workload{.steps = 1000, .batch = 256, .steps_per_epoch = 1000};
    std::map<int, int> leases;
    Cluster cluster(options, [&](int worker, double length, double) {
      return slow(worker) * (0.1 + 0.9 * length) + (leases[worker]++ == 0 ? at_first : 0);
    });
    cluster.run(60);  // in which the slowest could do seven even leases
    const double possible = 60 * (1 + 0.5 + 0.25 + 0.125);
    EXPECT_GE(cluster.span(0, 60).samples / 64 / possible, 0.85) << at_first;
    EXPECT_LE(cluster.span(0, 60).staleness / cluster.span(0, 60).samples, 0.1) << at_first;
  }
}

TEST(Controller, WithoutLeasesOneSlowWorkerIsNotWaitedFor) {
  SchedulerOptions options;
  options.workers = kWorkers;
  options.pace = kAsup;
  Cluster cluster(options, [](int worker, double, double) { return worker == 2 ? 4.0 : 1.0; });
  cluster.run(300);
  const Cluster::Span span = cluster.span(0, 300);
  EXPECT_GE(span.samples / (300 * 3.25), 0.9);
  EXPECT_LE(span.staleness / span.samples, 0.25);
}

TEST(Controller, PausesAreNotWaitedFor) {
  // One lease in ten takes five seconds more.
  const Slowness pauses = [](int worker, double now) {
    return worker == 2 && std::fmod(now * 7.3, 10) < 1 ? 6 : 1;
  };
  const Scene scene(pauses);
  Cluster asup = scene.run(kAsup, 400), bsp = scene.run(kBsp, 400), asp = scene.run(kAsp, 400);
  const double possible = asp.span(0, 400).samples;  // nobody waits there
  EXPECT_GE(asup.span(0, 400).samples / possible, 0.93);
  EXPECT_LE(bsp.span(0, 400).samples / possible, 0.85);
  EXPECT_LE(asup.span(0, 400).staleness / asup.span(0, 400).samples, 0.12);
}

TEST(Controller, RestlessWorkersWaitForEachOther) {
  const auto seconds_of = [](const Options& pace) {
    SchedulerOptions options;
    options.workers = 16;
    options.pace = pace;
    options.work = Workload{.steps = 240, .batch = 128, .steps_per_epoch = 240};
    std::mt19937 random(3);
    Cluster cluster(options, [&](int, double length, double) {
      return (0.7 + 6e-4 * static_cast<double>(random() % 1001)) * (0.2 + 0.8 * length);
    });
    cluster.run();
    const PaceReport report = cluster.head().report();
    EXPECT_LE(report.samples_dropped, 240u);  // of 30720
    EXPECT_LE(report.choices.size(), 30u);
    return cluster.now();
  };
  EXPECT_LE(seconds_of(kAsup), 1.05 * seconds_of(kBsp));
}

TEST(Controller, FollowsAWorkerThatSlowsDownAndRecovers) {
  const Scene scene(slow_for_a_while);
  Cluster asup = scene.run(kAsup, 300);
  EXPECT_GE(scene.outcome(asup, 0, 100).speed, 0.97);
  EXPECT_GE(scene.outcome(asup, 104, 112).speed, 0.85);  // within a few steps
  EXPECT_GE(scene.outcome(asup, 120, 200).speed, 0.95);
  EXPECT_LE(scene.outcome(asup, 120, 200).staleness, 0.03);
  EXPECT_GE(scene.outcome(asup, 204, 300).speed, 0.95);
  EXPECT_LE(scene.outcome(asup, 210, 300).staleness, 0.01);
}

TEST(Controller, FrozenAtItsFirstChoiceItDoesNotFollow) {
  const Scene scene(slow_for_a_while);
  Cluster asup = scene.run(kAsup, 300), frozen = scene.run(kFrozen, 300);
  EXPECT_GE(scene.outcome(frozen, 0, 100).speed, 0.97);
  EXPECT_LE(scene.outcome(frozen, 104, 200).speed, 0.35);
  EXPECT_LE(frozen.span(0, 300).samples, 0.85 * asup.span(0, 300).samples);
  EXPECT_THAT(frozen.head().report().choices.back().name, HasSubstr("frozen"));
}

TEST(Controller, FrozenWithASlowWorkerItWaitsForTheOthersOnly) {
  Timing fast, slow;
  fast.add(1, 1);
  slow.add(1, 4);
  const Workers workers{{0, Measured(fast)}, {1, Measured(slow)}, {2, Measured(fast)}};
  const std::map<int, double> even{{0, 1}, {1, 1}, {2, 1}};
  const Bounds together{.gather = kAll, .keep = 8, .patience = 1};
  EXPECT_EQ(without_clock(together, workers, even),
            (Bounds{.gather = kAll, .spare = 1, .keep = 8}));
  Bounds nobody = together;
  nobody.patience = 0;
  EXPECT_EQ(without_clock(nobody, workers, even).spare, 1);  // the two that come at once are one
  Bounds patient = together;
  patient.patience = 10;
  EXPECT_EQ(without_clock(patient, workers, even).spare, 0);
}

TEST(Controller, LeasesThatTakeTheSameTimeWhateverTheirLengthAreFoundOut) {
  const Scene scene(one_slow, 0.03, 1);
  const Outcome asup = scene.outcome(kAsup, 400);
  EXPECT_GE(asup.speed, 0.9);
  EXPECT_LE(asup.staleness, 0.3);
}

TEST(Controller, BalancedLengthsTakeAllEquallyLong) {
  Timing fast, slow;
  for (int i = 0; i < 5; ++i) {
    fast.add(1, 1);
    slow.add(1, 4);
  }
  const Workers workers{
      {0, Measured(fast)}, {1, Measured(fast)}, {2, Measured(fast)}, {3, Measured(slow)}};
  const auto lengths = balanced_lengths(workers);
  double sum = 0;
  for (const auto& [id, length] : lengths) sum += length;
  EXPECT_NEAR(sum, 4, 1e-6);
  EXPECT_NEAR(lengths.at(0) * 0.9 + 0.1, 4 * (lengths.at(3) * 0.9 + 0.1), 1e-6);
}

TEST(Controller, StalenessCountsMoreTowardTheEnd) {
  Timing fast, slow;
  for (int i = 0; i < 8; ++i) {
    fast.add(1, 1);
    slow.add(1, 4);
  }
  Situation situation;
  situation.workers = {{0, {&fast}}, {1, {&fast}}, {2, {&fast}}, {3, {&slow}}};
  Controller controller(false, 0.9);
  const Choice early = *controller.decide(situation);
  EXPECT_EQ(early.weight, 1);
  EXPECT_GT(early.staleness, 0.1);
  situation.left = 0.01;
  std::optional<Choice> late;
  for (int i = 0; i < 20 && !late; ++i) late = controller.decide(situation);
  ASSERT_TRUE(late);
  EXPECT_GT(late->weight, 4.5);
  EXPECT_EQ(late->staleness, 0);
  EXPECT_EQ(late->bounds.keep, 0);  // without leases to balance, late ones are dropped
  EXPECT_GE(late->speed, 0.9);
}

TEST(Controller, ChoicesSayWhatTheySaw) {
  Cluster cluster = Scene(one_slow).run(kAsup, 40);
  const PaceReport report = cluster.head().report();
  ASSERT_GE(report.choices.size(), 2u);
  EXPECT_THAT(report.choices.front().reason, HasSubstr("the first choice"));
  const Choice& last = report.choices.back();
  EXPECT_THAT(last.workers, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_NEAR(last.seconds[2], 4, 0.2);
  EXPECT_NEAR(std::accumulate(last.lengths.begin(), last.lengths.end(), 0.0), 4, 1e-6);
  EXPECT_GT(last.score, 0.9);
  EXPECT_THAT(describe(last), HasSubstr("worker 2 takes"));
  EXPECT_THAT(describe(last), HasSubstr("balanced"));
}

// What was applied under one choice, and how late, is known by the next one, and by the report.
TEST(Controller, ChoicesSayHowLateGradientsReallyWere) {
  Cluster cluster = Scene(one_slow).run(kAsup, 40);
  const PaceReport report = cluster.head().report();
  EXPECT_EQ(report.choices.front().samples, 0u);  // it is made at the first push
  EXPECT_EQ(report.choices.front().measured_staleness, 0);
  std::uint64_t samples = 0;
  double late = 0;
  for (const Choice& choice : report.choices) {
    const double late_now = static_cast<double>(choice.samples) * choice.measured_staleness;
    EXPECT_GE(choice.samples, samples);
    EXPECT_GE(late_now, late - 1e-6);
    samples = choice.samples;
    late = late_now;
  }
  EXPECT_GT(samples, 0u);
  EXPECT_LE(samples, report.samples);
  EXPECT_LE(late, static_cast<double>(report.samples) * report.mean_staleness_steps + 1e-6);
}

}  // namespace
}  // namespace asup::ps::pace
