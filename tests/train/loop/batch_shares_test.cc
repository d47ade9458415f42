#include "asup/train/loop/batch_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace asup::train {
namespace {

using Parts = std::vector<std::int64_t>;

// By milliseconds for a sample, and for a step whatever its samples are.
WorkTime of_ms(double sample, double fixed = 0) {
  return {static_cast<std::int64_t>(fixed * 1e9), static_cast<std::int64_t>(sample * 1e9)};
}

TEST(Parts, EqualWorkersHaveEvenParts) {
  EXPECT_EQ(fastest_shares(24, std::vector{of_ms(2), of_ms(2), of_ms(2)}), (Parts{8, 8, 8}));
  EXPECT_EQ(even_shares(26, 3), (Parts{9, 9, 8}));
}

TEST(Parts, AreInProportionToSpeed) {
  EXPECT_EQ(fastest_shares(24, std::vector{of_ms(1), of_ms(3)}), (Parts{18, 6}));
  EXPECT_EQ(fastest_shares(70, std::vector{of_ms(1), of_ms(2), of_ms(4)}), (Parts{40, 20, 10}));
}

// 4 + 20 and 10 + 2 · 7: both take 24 ms.
TEST(Parts, WhatAStepTakesAnywayCounts) {
  EXPECT_EQ(fastest_shares(27, std::vector{of_ms(1, 4), of_ms(2, 10)}), (Parts{20, 7}));
}

// Two where there are as many: BatchNorm has no statistics of one.
TEST(Parts, EveryWorkerHasSamples) {
  EXPECT_EQ(fastest_shares(10, std::vector{of_ms(1), of_ms(1000)}), (Parts{8, 2}));
  EXPECT_EQ(fastest_shares(4, std::vector{of_ms(1), of_ms(1000)}), (Parts{2, 2}));
  EXPECT_EQ(fastest_shares(3, std::vector{of_ms(1), of_ms(1000), of_ms(9, 9)}), (Parts{1, 1, 1}));
}

TEST(Parts, ChangeOnlyWhereItIsWorthIt) {
  const Parts even{50, 50};
  EXPECT_EQ(better_shares(even, std::vector{of_ms(1), of_ms(1.04)}), even);
  EXPECT_EQ(better_shares(even, std::vector{of_ms(1), of_ms(3)}), (Parts{75, 25}));
  EXPECT_EQ(better_shares({75, 25}, std::vector{of_ms(1), of_ms(3.05)}), (Parts{75, 25}));
  EXPECT_EQ(better_shares({75, 25}, std::vector{of_ms(1), of_ms(1)}), even);
}

TEST(Parts, AreOfSuchABatch) {
  EXPECT_TRUE(are_shares(Parts{22, 2}, 24, 2));
  EXPECT_FALSE(are_shares(Parts{23, 1}, 24, 2));
  EXPECT_TRUE(are_shares(Parts{2, 1}, 3, 2));
  EXPECT_FALSE(are_shares(Parts{24, 0}, 24, 2));
  EXPECT_FALSE(are_shares(Parts{12, 11}, 24, 2));
  EXPECT_FALSE(are_shares(Parts{8, 8, 8}, 24, 2));
  EXPECT_FALSE(are_shares(Parts{}, 24, 2));
}

TEST(Parts, TimesAreWholePicoseconds) {
  EXPECT_EQ(work_time(0.010, 0.2, 8, 24), (WorkTime{2'000'000'000, 1'000'000'000}));
  // However long or short: no part of the batch overflows, and a sample takes some time.
  const std::int64_t batch = 1'000'000'000;
  EXPECT_GT(work_time(1e12, 0.5, 1, batch).of(batch), 0);
  EXPECT_EQ(work_time(0, 0, 1, batch), (WorkTime{0, 1}));
}

TEST(Parts, ManySamplesForManyWorkers) {
  std::vector<WorkTime> times;
  for (int i = 1; i <= 100; ++i) times.push_back(of_ms(i, 100 - i));
  const Parts parts = fastest_shares(100'000, times);
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), 100'000);
  // One sample more would have come later at any of them than the last is done now.
  std::int64_t last = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) last = std::max(last, times[i].of(parts[i]));
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_GE(times[i].of(parts[i] + 1), last);
}

}  // namespace
}  // namespace asup::train
