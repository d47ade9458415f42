#include "asup/data/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>

#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

Indices counting(std::size_t size) {
  Indices all(size);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

// What all ranks together see in a step, in rank order.
Indices global_step(std::size_t size, int ranks, std::size_t batch, Remainder remainder,
                    std::uint64_t epoch, std::size_t step) {
  Indices all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto part = ShardedBatches(size, 5, rank, ranks, batch, remainder).indices(epoch, step);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(GlobalOrder, IsAPermutation) {
  for (const std::size_t size : {0u, 1u, 2u, 7u, 1000u})
    EXPECT_EQ(sorted(GlobalOrder(size, 3).order(4)), counting(size));
}

// Written down once: the order is part of what makes a run repeatable, on every platform.
TEST(GlobalOrder, IsTheSameEverywhere) {
  EXPECT_EQ(GlobalOrder(10, 42).order(0), (Indices{4, 6, 7, 0, 9, 5, 1, 2, 3, 8}));
  EXPECT_EQ(GlobalOrder(10, 42).order(1), (Indices{8, 7, 9, 0, 1, 2, 5, 6, 4, 3}));
}

TEST(GlobalOrder, ChangesWithEpochAndSeed) {
  const GlobalOrder order(1000, 1);
  EXPECT_EQ(order.order(0), order.order(0));
  EXPECT_NE(order.order(0), order.order(1));
  EXPECT_NE(order.order(0), GlobalOrder(1000, 2).order(0));
  EXPECT_EQ(GlobalOrder(1000, 1, /*shuffle=*/false).order(7), counting(1000));
}

TEST(PartOf, SharesAreKeptTo) {
  const Indices shares{5, 0, 3, 1};
  EXPECT_EQ(part_of(9, 0, shares), (Part{0, 5}));
  EXPECT_EQ(part_of(9, 1, shares), (Part{5, 5}));
  EXPECT_EQ(part_of(9, 2, shares), (Part{5, 8}));
  EXPECT_EQ(part_of(9, 3, shares), (Part{8, 9}));
}

TEST(PartOf, SharesOfAnotherCountCoverItAll) {
  const Indices shares{18, 5, 1};
  for (const std::size_t count : {0u, 1u, 2u, 7u, 16u, 100u}) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const Part part = part_of(count, i, shares);
      EXPECT_EQ(part.begin, begin);
      const double exact = static_cast<double>(count) * static_cast<double>(shares[i]) / 24;
      EXPECT_NEAR(static_cast<double>(part.size()), exact, 1);
      begin = part.end;
    }
    EXPECT_EQ(begin, count);
  }
}

TEST(ShardedBatches, PartsByShares) {
  const Indices shares{6, 2};
  const ShardedBatches first(20, 5, 0, 2, 8, Remainder::keep);
  const ShardedBatches second(20, 5, 1, 2, 8, Remainder::keep);
  EXPECT_EQ(first.part(0, 1, shares), (Part{0, 6}));
  EXPECT_EQ(second.part(0, 1, shares), (Part{6, 8}));
  EXPECT_EQ(second.part(0, 2, shares), (Part{2, 4}));  // of the last four samples; not one alone
  EXPECT_EQ(second.part(0, 1), (Part{4, 8}));
}

// Every sample comes first about equally often.
TEST(GlobalOrder, IsFair) {
  std::vector<int> first(5);
  for (std::uint64_t epoch = 0; epoch < 10000; ++epoch)
    ++first[static_cast<std::size_t>(GlobalOrder(5, 9).order(epoch)[0])];
  for (const int count : first) EXPECT_NEAR(count, 2000, 200);
}

TEST(PartOf, DealsOutEvenly) {
  for (const std::size_t count : {0u, 1u, 5u, 64u, 67u})
    for (const std::size_t parts : {1u, 2u, 3u, 8u}) {
      std::size_t end = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        const Part part = part_of(count, i, parts);
        EXPECT_EQ(part.begin, end);
        EXPECT_LE(part.size(), count / parts + 1);
        EXPECT_GE(part.size(), count / parts);
        end = part.end;
      }
      EXPECT_EQ(end, count);
    }
}

// A step's samples do not depend on the number of ranks.
TEST(ShardedBatches, AnyNumberOfRanksMakesTheSameSteps) {
  for (const auto remainder : {Remainder::drop, Remainder::pad, Remainder::keep}) {
    const std::size_t steps = ShardedBatches(103, 5, 0, 1, 10, remainder).steps_per_epoch();
    for (const int ranks : {2, 3, 4, 7, 10})
      for (std::size_t step = 0; step < steps; ++step)
        EXPECT_EQ(global_step(103, ranks, 10, remainder, 2, step),
                  global_step(103, 1, 10, remainder, 2, step))
            << name_of(remainder) << ", " << ranks << " ranks, step " << step;
  }
}

Indices whole_epoch(std::size_t size, int ranks, std::size_t batch, Remainder remainder) {
  Indices all;
  const std::size_t steps = ShardedBatches(size, 5, 0, ranks, batch, remainder).steps_per_epoch();
  for (std::size_t step = 0; step < steps; ++step) {
    const Indices part = global_step(size, ranks, batch, remainder, 1, step);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(ShardedBatches, AnyRunOfAStepCanBeAskedFor) {
  const ShardedBatches batches(100, 5, 0, 3, 32, Remainder::keep);
  const Indices whole = global_step(100, 3, 32, Remainder::keep, 1, 3);
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_EQ(batches.indices(1, 3, {0, 4}), whole);
  EXPECT_EQ(batches.indices(1, 3, {1, 3}), (Indices{whole[1], whole[2]}));
  EXPECT_EQ(batches.indices(1, 3, {2, 2}), Indices{});
  EXPECT_THROW(batches.indices(1, 3, {0, 5}), Error);
}

TEST(ShardedBatches, KeepSeesEverySampleOnce) {
  for (const int ranks : {1, 2, 3, 8})
    EXPECT_EQ(sorted(whole_epoch(101, ranks, 10, Remainder::keep)), counting(101));
}

TEST(ShardedBatches, KeepMayLeaveRanksWithout) {
  const ShardedBatches first(101, 5, 0, 4, 10, Remainder::keep);
  const ShardedBatches last(101, 5, 3, 4, 10, Remainder::keep);
  EXPECT_EQ(first.steps_per_epoch(), 11u);
  EXPECT_EQ(first.global_count(0, 9), 10u);
  EXPECT_EQ(first.global_count(0, 10), 1u);
  EXPECT_EQ(first.indices(0, 10).size(), 1u);
  EXPECT_EQ(last.indices(0, 10).size(), 0u);
}

// BatchNorm has no statistics of one sample.
TEST(ShardedBatches, NoRankHasOneSampleOfAShorterBatch) {
  const std::vector<std::int64_t> shares{5, 3, 1, 3};
  for (std::size_t size = 122; size < 132; ++size)
    for (const bool is_even : {true, false}) {
      std::size_t next = 0;
      for (int rank = 0; rank < 4; ++rank) {
        const ShardedBatches batches(size, 5, rank, 4, 12, Remainder::keep);
        const Part part = is_even ? batches.part(0, 10) : batches.part(0, 10, shares);
        EXPECT_EQ(part.begin, next);
        EXPECT_NE(part.size(), 1u) << size << " rank " << rank;
        next = part.end;
      }
      EXPECT_EQ(next, size - 120);
    }
}

TEST(ShardedBatches, PadWrapsAround) {
  const Indices all = whole_epoch(101, 2, 10, Remainder::pad);
  ASSERT_EQ(all.size(), 110u);
  EXPECT_EQ(sorted(Indices(all.begin(), all.begin() + 101)), counting(101));
  EXPECT_EQ(Indices(all.begin() + 101, all.end()), Indices(all.begin(), all.begin() + 9));
  EXPECT_EQ(ShardedBatches(101, 5, 0, 2, 10, Remainder::pad).global_count(0, 10), 10u);
}

TEST(ShardedBatches, PadFillsABatchLargerThanTheSet) {
  const Indices all = whole_epoch(3, 2, 8, Remainder::pad);
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 3u);
}

TEST(ShardedBatches, DropLeavesOutTheRemainder) {
  const Indices all = whole_epoch(109, 2, 10, Remainder::drop);
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 100u);
}

TEST(ShardedBatches, DividesWithoutRemainder) {
  for (const auto remainder : {Remainder::drop, Remainder::pad, Remainder::keep}) {
    EXPECT_EQ(ShardedBatches(100, 5, 0, 2, 10, remainder).steps_per_epoch(), 10u);
    EXPECT_EQ(sorted(whole_epoch(100, 2, 10, remainder)), counting(100));
  }
}

TEST(ShardedBatches, SaysWhatIsWrong) {
  const auto make = [](std::size_t size, int rank, int ranks, std::size_t batch, Remainder r) {
    return [=] { ShardedBatches(size, 0, rank, ranks, batch, r); };
  };
  EXPECT_THAT(message_of(make(0, 0, 1, 10, Remainder::pad)), HasSubstr("no samples"));
  EXPECT_THAT(message_of(make(100, 0, 8, 4, Remainder::pad)), HasSubstr("at least 8"));
  EXPECT_THAT(message_of(make(100, 0, 1, 0, Remainder::pad)), HasSubstr("at least 1"));
  EXPECT_THAT(message_of(make(100, 0, 2, 128, Remainder::drop)),
              HasSubstr("more than the 100 samples"));
  EXPECT_THROW(make(100, 2, 2, 10, Remainder::drop)(), Error);
  EXPECT_THROW(ShardedBatches(100, 0, 0, 1, 10, Remainder::drop).indices(0, 10), Error);
}

TEST(ShardedBatches, ServesManyThreads) {
  const ShardedBatches batches(1000, 5, 0, 1, 100, Remainder::drop);
  std::vector<std::thread> threads;
  std::vector<Indices> seen(4);
  for (std::size_t t = 0; t < seen.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) seen[t] = batches.indices(t % 2, 3);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_EQ(seen[1], seen[3]);
  EXPECT_NE(seen[0], seen[1]);
}

}  // namespace
}  // namespace asup::data
