#include "asup/ps/shard.h"

#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "asup/base/error.h"
#include "asup/ps/thread_pool.h"

namespace asup::ps {
namespace {

constexpr Range kRange{100, 200'100};

constexpr double kOne[] = {1};

ServerSetup one_tensor(const kernels::Rule& rule = {}) {
  ServerSetup setup;
  setup.layout = layout::packed({{"w", 300'000}});
  setup.rules = {rule};
  return setup;
}

void run(Shard& shard, Shard::Job& job) {
  if (!job.sources.empty()) shard.begin(job);
  for (std::size_t part = 0; part < shard.measures(job); ++part) shard.measure(job, part);
  for (std::size_t part = 0; part < shard.parts(); ++part) shard.run(job, part);
}

TEST(Shard, AveragesByWeightWhereverThePiecesEnd) {
  Shard shard(kRange, one_tensor(), {});
  std::vector<float> a(kRange.size(), 1.0f), b(kRange.size(), 5.0f);
  const std::vector<Stretch> in_three = {{{100, 70'001}, a.data()},
                                         {{70'001, 150'000}, a.data() + 69'901},
                                         {{150'000, 200'100}, a.data() + 149'900}};
  const std::vector<Stretch> in_two = {{{100, 111}, b.data()}, {{111, 200'100}, b.data() + 11}};
  std::vector<float> copy(kRange.size());
  const std::vector<Range> all = {kRange};
  Shard::Job job;
  job.sources = {{0.75, kOne, in_three}, {0.25, kOne, in_two}};
  job.targets = {{all, copy.data()}};
  run(shard, job);
  for (std::size_t i = 0; i < copy.size(); ++i) {
    ASSERT_EQ(shard.parameters()[i], -2.0f) << i;
    ASSERT_EQ(copy[i], -2.0f) << i;
  }
}

TEST(Shard, ChangesAndCountsOnlyWhatHasAGradient) {
  kernels::Rule rule;
  rule.kind = kernels::Rule::Kind::adam;
  Shard shard(kRange, one_tensor(rule), {100, 50'000});
  std::vector<float> gradient(49'900, 1.0f);
  const std::vector<Stretch> first = {{{100, 50'000}, gradient.data()}};
  Shard::Job job;
  job.gain = 0.5;
  job.sources = {{1, kOne, first}};
  run(shard, job);
  ASSERT_EQ(shard.segments().size(), 2u);
  EXPECT_EQ(shard.segments()[0].updates, 1u);
  EXPECT_EQ(shard.segments()[1].updates, 0u);
  EXPECT_NEAR(shard.parameters()[0], -0.5, 1e-6);
  EXPECT_EQ(shard.parameters()[49'900], 0.0f);
}

TEST(Shard, LarsTakesEachTensorsOwnNorms) {
  kernels::Rule rule;
  rule.kind = kernels::Rule::Kind::lars;
  rule.trust = 0.1;
  ServerSetup setup;
  setup.layout = layout::packed({{"a", 1000}, {"b", 100'000}});
  setup.rules = {rule};
  Shard shard({0, 101'000}, setup, {});
  std::fill(shard.parameters(), shard.parameters() + 1000, 1.0f);
  std::fill(shard.parameters() + 1000, shard.parameters() + 101'000, 2.0f);
  std::vector<float> gradient(101'000, 4.0f);
  const std::vector<Stretch> whole = {{{0, 101'000}, gradient.data()}};
  Shard::Job job;
  job.sources = {{1, kOne, whole}};
  run(shard, job);
  // w - trust · |w| / |g| · g, whatever the size of the tensor.
  EXPECT_NEAR(shard.parameters()[0], 1 - 0.1 * 1, 1e-5);
  EXPECT_NEAR(shard.parameters()[100'999], 2 - 0.1 * 2, 1e-5);
}

// Momentum for one group, plain SGD with decay for the other, each with learning rates of its own.
TEST(Shard, GroupsHaveTheirOwnRulesAndLearningRates) {
  ServerSetup setup;
  setup.layout = layout::packed({{"a", 1000}, {"b", 1000}, {"c", 1000}});
  setup.rules = {{.kind = kernels::Rule::Kind::momentum, .momentum = 0.5}, {.weight_decay = 0.1}};
  setup.groups = {0, 1, 0};
  Shard shard({0, 3000}, setup, {});
  std::fill(shard.parameters(), shard.parameters() + 3000, 1.0f);
  std::vector<float> gradient(3000, 4.0f);
  const std::vector<Stretch> whole = {{{0, 3000}, gradient.data()}};
  const double lr[] = {1, 0.5};
  for (int i = 0; i < 2; ++i) {
    Shard::Job job;
    job.sources = {{1, lr, whole}};
    run(shard, job);
  }
  const double decayed = 1 - 0.5 * (4 + 0.1 * 1);
  EXPECT_EQ(shard.parameters()[0], 1 - 4 - 6);
  EXPECT_FLOAT_EQ(shard.parameters()[1500], decayed - 0.5 * (4 + 0.1 * decayed));
  EXPECT_EQ(shard.parameters()[2999], 1 - 4 - 6);
  EXPECT_EQ(shard.state()[0].data()[1500], 0) << "it has no momentum";
}

// Two workers may be at different points of a schedule.
TEST(Shard, SourcesCountByTheirOwnLearningRates) {
  ServerSetup setup;
  setup.layout = layout::packed({{"a", 1000}, {"b", 1000}});
  setup.rules = {{}, {}};
  setup.groups = {0, 1};
  Shard shard({0, 2000}, setup, {});
  std::vector<float> one(2000, 1.0f), two(2000, 2.0f);
  const std::vector<Stretch> of_one = {{{0, 2000}, one.data()}}, of_two = {{{0, 2000}, two.data()}};
  const double early[] = {0.25, 0.0}, late[] = {0.5, 0.0};
  Shard::Job job;
  job.gain = 2;
  job.sources = {{0.5, early, of_one}, {0.5, late, of_two}};
  run(shard, job);
  EXPECT_FLOAT_EQ(shard.parameters()[0], -2 * (0.5 * 0.25 * 1 + 0.5 * 0.5 * 2));
  EXPECT_EQ(shard.parameters()[1000], 0) << "a learning rate of 0, as before a warm-up";
}

TEST(ThreadPool, DoesEveryPartOnce) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<int>> done(97);
    std::atomic<bool> over = false;
    pool.start(
        done.size(), [&](std::size_t part) { ++done[part]; }, [&] { over = true; });
    while (pool.help()) {
    }
    while (!over) std::this_thread::yield();
    for (const auto& count : done) ASSERT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace asup::ps
