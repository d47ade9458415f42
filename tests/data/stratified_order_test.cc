#include "asup/data/stratified_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "asup/base/error.h"
#include "asup/data/random.h"
#include "asup/data/sharding.h"

namespace asup::data {
namespace {

// So many samples of each class, mixed up.
std::vector<std::int64_t> labels_of(const std::vector<std::size_t>& sizes, std::uint64_t seed) {
  std::vector<std::int64_t> labels;
  for (std::size_t c = 0; c < sizes.size(); ++c)
    labels.insert(labels.end(), sizes[c], static_cast<std::int64_t>(c));
  Random random(seed);
  for (std::size_t left = labels.size(); left > 1; --left)
    std::swap(labels[left - 1], labels[random.below(left)]);
  return labels;
}

void expect_each_once(std::vector<std::int64_t> order, std::size_t size) {
  std::vector<std::int64_t> all(size);
  std::iota(all.begin(), all.end(), 0);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, all);
}

// How far a class is from its share of the first samples, at worst.
double worst_distance(const std::vector<std::int64_t>& order,
                      const std::vector<std::int64_t>& labels,
                      const std::vector<std::size_t>& sizes) {
  std::vector<double> seen(sizes.size());
  double worst = 0;
  for (std::size_t t = 0; t < order.size(); ++t) {
    ++seen[static_cast<std::size_t>(labels[static_cast<std::size_t>(order[t])])];
    for (std::size_t c = 0; c < sizes.size(); ++c)
      worst = std::max(worst, std::abs(seen[c] - static_cast<double>((t + 1) * sizes[c]) /
                                                     static_cast<double>(order.size())));
  }
  return worst;
}

TEST(StratifiedOrder, NoClassIsAWholeSampleFromItsShare) {
  Random random(5);
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    std::vector<std::size_t> sizes(2 + random.below(9));
    for (std::size_t& size : sizes) size = 1 + random.below(trial % 2 == 0 ? 80 : 6);
    const auto labels = labels_of(sizes, trial);
    const auto order = stratified_order(labels, trial, 3);
    expect_each_once(order, labels.size());
    // The bound of the paper.
    const double most = 1 - 1 / (2 * static_cast<double>(sizes.size()) - 2);
    EXPECT_LE(worst_distance(order, labels, sizes), most + 1e-9) << "trial " << trial;
  }
}

// Batches of 40, of which each of 4 workers has 10: one of each class, or four.
TEST(StratifiedOrder, OfEqualClassesEveryBatchAndPartHasTheSame) {
  const std::vector<std::size_t> sizes(10, 60);
  const auto labels = labels_of(sizes, 1);
  for (int ranks : {1, 4})
    for (int rank = 0; rank < ranks; ++rank) {
      const ShardedBatches batches(labels.size(), 7, rank, ranks, 40, Remainder::keep, true,
                                   labels);
      for (std::size_t step = 0; step < batches.steps_per_epoch(); ++step) {
        std::vector<int> counts(10);
        for (const std::int64_t index : batches.indices(2, step))
          ++counts[static_cast<std::size_t>(labels[static_cast<std::size_t>(index)])];
        EXPECT_EQ(counts, std::vector<int>(10, 4 / ranks));
      }
    }
}

TEST(StratifiedOrder, IsAnotherInEachEpochAndTheSameForASeed) {
  const auto labels = labels_of({50, 30, 20}, 1);
  const auto order = stratified_order(labels, 1, 0);
  EXPECT_EQ(stratified_order(labels, 1, 0), order);
  EXPECT_NE(stratified_order(labels, 1, 1), order);
  EXPECT_NE(stratified_order(labels, 2, 0), order);
  // Classes of one size do not come in the same turn either.
  const auto even = labels_of({50, 50, 50}, 1);
  std::vector<std::int64_t> turns[2];
  for (std::uint64_t epoch : {0, 1})
    for (const std::int64_t index : stratified_order(even, 1, epoch))
      turns[epoch].push_back(even[static_cast<std::size_t>(index)]);
  EXPECT_NE(turns[0], turns[1]);
}

// The same bits on every platform: all ranks must agree.
TEST(StratifiedOrder, IsWrittenDown) {
  EXPECT_EQ(stratified_order(std::vector<std::int64_t>{0, 1, 0, 1, 0, 2, 0, 1}, 3, 4),
            (std::vector<std::int64_t>{4, 7, 6, 3, 0, 5, 1, 2}));
}

TEST(StratifiedOrder, OfOneClassOrNoSampleIsAnOrderToo) {
  EXPECT_TRUE(stratified_order({}, 1, 0).empty());
  const std::vector<std::int64_t> same(20, 7);
  const auto order = stratified_order(same, 1, 0);
  expect_each_once(order, 20);
  EXPECT_NE(order, stratified_order(same, 1, 1));
}

TEST(StratifiedOrder, WantsALabelForEachSample) {
  EXPECT_THROW(GlobalOrder(10, 1, true, {0, 1, 2}), BadInput);
}

}  // namespace
}  // namespace asup::data
