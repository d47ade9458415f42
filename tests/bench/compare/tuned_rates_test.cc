#include "asup/bench/compare/tuned_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "asup/base/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TriedRate, IsBetterWhereItComesToTheTargetSooner) {
  const TriedRate soon{0.1, 0.82, 3}, late{0.05, 0.85, 5}, close{0.02, 0.79}, far{0.01, 0.6};
  const TriedRate lost{0.4, 0.9, 1, true};
  EXPECT_TRUE(soon.is_better_than(late));
  EXPECT_TRUE(late.is_better_than(close));
  EXPECT_TRUE(close.is_better_than(far));
  EXPECT_TRUE(far.is_better_than(lost));
  EXPECT_FALSE(late.is_better_than(soon) || close.is_better_than(late) || lost.is_better_than(far));
}

// The accuracy is the higher the nearer a rate is to `best`, on a scale of factors.
std::vector<double> tried_around(double best, double first, double* found) {
  const TunedRate rate = tune_rate(first, [&](double lr) {
    return TriedRate{lr, 1 / (1 + std::abs(std::log2(lr / best)))};
  });
  *found = rate.lr;
  std::vector<double> tried;
  for (const TriedRate& each : rate.tried) tried.push_back(each.lr);
  return tried;
}

TEST(TuneRate, GoesOnWhileTheBestIsAtAnEnd) {
  double found = 0;
  EXPECT_THAT(tried_around(0.05, 0.05, &found), ElementsAre(0.025, 0.05, 0.1));
  EXPECT_DOUBLE_EQ(found, 0.05);
  EXPECT_THAT(tried_around(0.2, 0.05, &found), ElementsAre(0.025, 0.05, 0.1, 0.2, 0.4));
  EXPECT_DOUBLE_EQ(found, 0.2);
  EXPECT_THAT(tried_around(0.02, 0.08, &found), ElementsAre(0.01, 0.02, 0.04, 0.08, 0.16));
  EXPECT_DOUBLE_EQ(found, 0.02);
  EXPECT_THAT(tried_around(100, 1, &found), ElementsAre(0.5, 1, 2, 4, 8, 16));
  EXPECT_DOUBLE_EQ(found, 16);
}

// Some may be tried at a time: it says which are still to try.
TEST(NextRates, AreThreeAtFirst) {
  EXPECT_THAT(next_rates(0.1, {}), ElementsAre(0.05, 0.1, 0.2));
  EXPECT_THAT(next_rates(0.1, {{0.1, 0.5}}), ElementsAre(0.05, 0.2));
  EXPECT_THAT(next_rates(0.1, {{0.2, 0.7}, {0.1, 0.5}, {0.05, 0.6}}), ElementsAre(0.4));
  EXPECT_THAT(next_rates(0.1, {{0.2, 0.5}, {0.1, 0.7}, {0.05, 0.6}}), ElementsAre());
  EXPECT_DOUBLE_EQ(best_of({{0.2, 0.5}, {0.1, 0.7}, {0.05, 0.6}}).lr, 0.1);
}

// A run would fail: there is no such program as this test's own.
TEST(TunedRates, AreTakenFromTheFileOfAnEarlierBenchmark) {
  const TemporaryFolder folder;
  const Training training{.steps = 100};
  const Way local{"local", "--sync local --every 16"};
  folder.write("rates.json",
               R"([{"way": "local", "job": ")" + job_of(training, local) +
                   R"(", "lr": 0.2, "tried": [{"lr": 0.2, "validation_accuracy": 0.8,)"
                   R"( "seconds_to_target": null, "diverged": false}]}])");
  ProgramRunner runner;
  TunedRates rates(folder.file("rates.json"));
  const TunedRate known = rates.of(training, {.name = "local", .way = local}, runner);
  EXPECT_DOUBLE_EQ(known.lr, 0.2);
  ASSERT_EQ(known.tried.size(), 1u);
  EXPECT_THAT(known.tried[0].accuracy, DoubleEq(0.8));
}

TEST(TunedRates, AreOfOneJobAndWay) {
  const Way local{"local", "--sync local"};
  const std::string job = job_of({}, local);
  EXPECT_NE(job, job_of({.steps = 100}, local));
  EXPECT_NE(job, job_of({.flags = "--momentum 0.5"}, local));
  EXPECT_NE(job, job_of({}, {"local", "--sync local --every 4"}));
  EXPECT_EQ(job, job_of({.sample_ms = 7, .folder = "elsewhere"}, local));
}

TEST(TunedRates, SayWhichFileHasNone) {
  const TemporaryFolder folder;
  for (const char* text : {"{", R"([{"way": "local"}])", "[1]"}) {
    folder.write("rates.json", text);
    EXPECT_THAT(message_of<BadInput>([&] { TunedRates(folder.file("rates.json")); }),
                HasSubstr("--rates " + folder.file("rates.json") + ": holds no learning rates"));
  }
  EXPECT_NO_THROW(TunedRates(folder.file("not-yet.json")));
}

}  // namespace
}  // namespace asup::bench
