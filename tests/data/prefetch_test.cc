#include "asup/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "asup/base/clock.h"
#include "asup/data/read_ahead.h"

namespace asup::data {
namespace {

// Sample i is the number i; epoch shows in the target. Counts its batches, and can fail or be slow.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::size_t size) : size_(size) {}

  std::size_t size() const override { return size_; }
  std::vector<std::int64_t> input_shape() const override { return {1, 1, 1}; }
  int classes() const override { return 1; }
  std::string name() const override { return "numbers"; }

  std::size_t fail_at = SIZE_MAX;  // batches
  std::chrono::milliseconds pause{0};
  mutable std::atomic<std::size_t> made{0};

 private:
  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const override {
    if (made++ == fail_at) throw std::runtime_error("the disk is on fire");
    std::this_thread::sleep_for(pause);
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch{torch::empty({count, 1, 1, 1}), torch::full({count}, static_cast<int>(epoch))};
    std::copy(indices.begin(), indices.end(), batch.input.mutable_data_ptr<float>());
    return batch;
  }

  std::size_t size_;
};

std::vector<std::int64_t> indices_in(const Batch& batch) {
  const float* begin = batch.input.const_data_ptr<float>();
  return {begin, begin + batch.input.numel()};
}

TEST(Prefetcher, GivesAllBatchesInOrder) {
  const Numbers numbers(1000);
  const ShardedBatches batches(1000, 1, 1, 2, 64, Remainder::keep);
  for (const std::size_t depth : {0u, 1u, 2u, 50u})
    for (const std::size_t first : {0u, 3u}) {
      Prefetcher prefetcher(numbers, batches, 7, first, depth);
      for (std::size_t step = first; step < batches.steps_per_epoch(); ++step) {
        const auto batch = prefetcher.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(indices_in(*batch), batches.indices(7, step));
        EXPECT_EQ(batch->target[0].item<int>(), 7);
      }
      EXPECT_FALSE(prefetcher.next());
      EXPECT_FALSE(prefetcher.next());
    }
}

TEST(Prefetcher, GivesPartsByShares) {
  const Numbers numbers(100);
  const ShardedBatches batches(100, 1, 1, 2, 24, Remainder::keep);
  Prefetcher prefetcher(numbers, batches, 0, 3, 2, {18, 6});
  EXPECT_EQ(indices_in(*prefetcher.next()), batches.indices(0, 3, {18, 24}));
  EXPECT_EQ(indices_in(*prefetcher.next()), batches.indices(0, 4, {2, 4}));
  EXPECT_FALSE(prefetcher.next());
}

TEST(Prefetcher, GivesEmptyBatchesToRanksWithoutSamples) {
  const Numbers numbers(5);
  const ShardedBatches batches(5, 1, 3, 4, 4, Remainder::keep);
  Prefetcher prefetcher(numbers, batches, 0);
  EXPECT_EQ(prefetcher.next()->input.size(0), 1);
  EXPECT_EQ(prefetcher.next()->input.size(0), 0);
  EXPECT_FALSE(prefetcher.next());
}

TEST(Prefetcher, WorksAheadButNotFurtherThanItsDepth) {
  const Numbers numbers(1000);
  const ShardedBatches batches(1000, 1, 0, 1, 10, Remainder::drop);
  Prefetcher prefetcher(numbers, batches, 0, 0, 3);
  const Deadline deadline = after(Seconds(10));
  while (numbers.made < 3 && Clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(numbers.made, 3u);
}

TEST(Prefetcher, PassesExceptionsOnAfterTheBatchesBefore) {
  Numbers numbers(1000);
  numbers.fail_at = 2;
  const ShardedBatches batches(1000, 1, 0, 1, 10, Remainder::drop);
  Prefetcher prefetcher(numbers, batches, 0, 0, 5);
  EXPECT_TRUE(prefetcher.next());
  EXPECT_TRUE(prefetcher.next());
  for (int i = 0; i < 2; ++i) {
    try {
      prefetcher.next();
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the disk is on fire");
    }
  }
}

// It waits for the batch under way, not for all the others.
TEST(Prefetcher, GoesAwayPromptly) {
  Numbers numbers(1000);
  numbers.pause = std::chrono::milliseconds(50);
  const ShardedBatches batches(1000, 1, 0, 1, 10, Remainder::drop);
  { Prefetcher prefetcher(numbers, batches, 0, 0, 100); }
  EXPECT_LT(numbers.made, 100u);
}

TEST(ReadAhead, WhatWasBegunIsReadOnceAndBesideTheCaller) {
  const Numbers numbers(1000);
  ReadAhead ahead(numbers);
  const std::vector<std::int64_t> first{3, 1, 4}, second{1, 5, 9, 2};
  ahead.begin(first, 7);
  while (numbers.made == 0) std::this_thread::yield();  // by nobody's take()
  const Batch batch = ahead.take(first, 7);
  EXPECT_EQ(indices_in(batch), first);
  EXPECT_EQ(batch.target[0].item<int>(), 7);
  EXPECT_EQ(numbers.made, 1u);
  EXPECT_EQ(indices_in(ahead.take(second, 7)), second);  // not begun
  EXPECT_EQ(numbers.made, 2u);
}

TEST(ReadAhead, AnotherBatchThanWasBegunIsRead) {
  const Numbers numbers(1000);
  ReadAhead ahead(numbers);
  const std::vector<std::int64_t> first{3, 1, 4}, second{1, 5, 9, 2};
  ahead.begin(first, 7);
  EXPECT_EQ(indices_in(ahead.take(second, 7)), second);
  const Batch later = ahead.take(first, 8);
  EXPECT_EQ(later.target[0].item<int>(), 8);
}

TEST(ReadAhead, ThrowsWhatTheDatasetThrows) {
  Numbers numbers(1000);
  numbers.fail_at = 0;
  ReadAhead ahead(numbers);
  ahead.begin({1}, 0);
  EXPECT_THROW(ahead.take({1}, 0), std::runtime_error);
  EXPECT_EQ(ahead.take({1}, 0).input.numel(), 1);
}

}  // namespace
}  // namespace asup::data
