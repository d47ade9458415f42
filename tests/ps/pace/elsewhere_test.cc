#include "asup/ps/pace/elsewhere.h"

#include <gtest/gtest.h>

#include "tests/ps/pace/cluster.h"

namespace asup::ps::pace {
namespace {

using By = Elsewhere::By;

std::vector<Computing> equal(int workers, double seconds) {
  return {static_cast<std::size_t>(workers), {std::vector<double>(16, seconds), 0}};
}

TEST(Elsewhere, AnExchangeThatFitsBesideBackwardIsLeftToAllReduce) {
  const Elsewhere best = best_elsewhere(equal(4, 0.1), 0.02, 0);
  EXPECT_EQ(best.by, By::all_reduce);
  EXPECT_NEAR(best.seconds, 0.1 + 0.1 * 2 * 0.02, 1e-9);
}

TEST(Elsewhere, OneThatTakesMuchLongerIsSeldomMade) {
  const Elsewhere best = best_elsewhere(equal(4, 0.1), 0.3, 0);
  EXPECT_EQ(best.by, By::local);
  EXPECT_GE(best.every, 4);
  EXPECT_LT(best.seconds, 0.35);
  EXPECT_GE(best_elsewhere(equal(4, 0.1), 2, 0).every, best.every);
}

// The parts of a batch that many workers have are small, and their models drift apart.
TEST(Elsewhere, ManyWorkersExchangeMoreOften) {
  EXPECT_LT(best_elsewhere(equal(16, 0.1), 0.3, 0).every,
            best_elsewhere(equal(4, 0.1), 0.3, 0).every);
}

// What servers do for all, workers would do each for itself.
TEST(Elsewhere, AnUpdateIsDoneThereToo) {
  EXPECT_GT(best_elsewhere(equal(4, 0.1), 0.1, 0.09).seconds, 0.1 + 0.09);
}

// Local steps are even ones, so that all wait for the slowest.
TEST(Elsewhere, UnequalWorkersShareABatch) {
  std::vector<Computing> workers = equal(4, 0.1);
  for (double& each : workers[3].seconds) each = 0.4;
  const Elsewhere best = best_elsewhere(workers, 0.05, 0);
  EXPECT_EQ(best.by, By::all_reduce);
  EXPECT_NEAR(best.seconds, 4 / (3 / 0.1 + 1 / 0.4), 0.05);
}

TEST(Elsewhere, PausesAreWaitedForThere) {
  std::vector<Computing> workers = equal(4, 0.1);
  workers[0].seconds[3] = workers[1].seconds[7] = workers[2].seconds[11] = 0.9;
  EXPECT_GT(best_elsewhere(workers, 0.001, 0).seconds, 0.1 + 3 * 0.8 / 16 - 0.08);
}

// Virtual workers whose even lease takes a second, of which `exchange` is not computing.
struct Advice {
  std::optional<Elsewhere> leaves;
  std::uint64_t sync_point = 0;
  std::vector<Choice> choices;
};
Advice advice_of(double exchange, bool can_leave = true, std::uint64_t steps = 200,
                 std::function<void(Cluster&)> happens = {}) {
  SchedulerOptions options;
  options.workers = 4;
  options.pace = {.kind = Kind::adaptive, .leaves = true};
  options.work =
      Workload{.steps = steps, .batch = 256, .steps_per_epoch = steps, .can_leave = can_leave};
  Cluster cluster(options,
                  [&](int, double length, double) { return exchange + (1 - exchange) * length; });
  cluster.on_push = [&](Push& push) {
    push.seconds_working = (1 - exchange) * static_cast<double>(push.samples) / 64;
  };
  Advice advice;
  cluster.on_decision = [&](const Decision& decision) {
    const auto* release = std::get_if<Clearance>(&decision);
    if (!release || !release->leaves || advice.leaves) return;
    EXPECT_EQ(release->to, Clearance::To::sync_point);
    advice.leaves = release->leaves;
    advice.sync_point = release->sync_point;
  };
  if (happens) happens(cluster);
  cluster.run(100);
  advice.choices = cluster.head().report().choices;
  return advice;
}

TEST(Elsewhere, ServersAreLeftWhereExchangesTakeMostOfTheTime) {
  const Advice advice = advice_of(0.6);
  ASSERT_TRUE(advice.leaves);
  EXPECT_EQ(advice.leaves->by, By::local);
  EXPECT_LE(advice.sync_point, 20u);  // soon
  const Choice& last = advice.choices.back();
  EXPECT_TRUE(last.leaves);
  EXPECT_EQ(last.name, name_of(*advice.leaves));
  EXPECT_NEAR(last.exchange, 0.6, 0.01);
  EXPECT_GT(last.score, 1.15 * last.score_before);
}

TEST(Elsewhere, ServersAreKeptWhereLittleOrNothingIsGained) {
  EXPECT_FALSE(advice_of(0.05).leaves);
  EXPECT_FALSE(advice_of(0.6, /*can_leave=*/false).leaves);
  EXPECT_FALSE(advice_of(0.6, true, 8).leaves);  // the run has ended before it is sure
}

// It takes all workers. The pace goes on as with servers that are kept.
TEST(Elsewhere, ServersAreKeptWhereAWorkerIsLost) {
  const auto loses_one_at = [](double time) {
    return [time](Cluster& cluster) { cluster.at(time, [](Cluster& now) { now.lose(3); }); };
  };
  EXPECT_FALSE(advice_of(0.6, true, 200, loses_one_at(0.5)).leaves);

  std::optional<double> decided;  // when it was found out that they are to be left
  for (const Choice& choice : advice_of(0.6).choices)
    if (choice.leaves) decided = choice.time;
  ASSERT_TRUE(decided);
  const Advice advice = advice_of(0.6, true, 200, loses_one_at(*decided + 0.01));
  EXPECT_FALSE(advice.leaves);
  EXPECT_GT(advice.choices.back().time, *decided) << "it goes on choosing";
}

}  // namespace
}  // namespace asup::ps::pace
