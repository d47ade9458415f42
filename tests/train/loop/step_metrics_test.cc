#include "asup/train/loop/step_metrics.h"

#include <gtest/gtest.h>

#include <functional>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

void with_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  testing::run_ranks(ranks, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    body(*communicator);
  });
}

report::StepRecord record(std::int64_t step) {
  report::StepRecord record;
  record.step = step;
  record.samples = 8;
  return record;
}

// Rank r has 2 (r + 1) samples of each step, with a loss of 10 each.
void note(StepMetrics& books, int rank, std::int64_t step) {
  const std::size_t samples = 2 * (static_cast<std::size_t>(rank) + 1);
  books.note(record(step), 10.0 * static_cast<double>(samples), samples);
  books.took(0.5, static_cast<double>(step), {});
}

TEST(StepMetrics, SumsUpWhatAllHaveNoted) {
  with_ranks(2, [](Communicator& communicator) {
    StepMetrics books(communicator);
    EXPECT_TRUE(books.empty());
    EXPECT_FALSE(books.collect());
    note(books, communicator.rank(), 1);
    note(books, communicator.rank(), 2);
    EXPECT_FALSE(books.empty());
    books.tell(3, communicator.rank() == 1);
    EXPECT_TRUE(books.empty());
    const auto told = books.collect();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->steps.step, 2);
    EXPECT_EQ(told->steps.samples, 12);
    EXPECT_EQ(told->steps.loss, 10);
    EXPECT_EQ(told->steps.step_seconds, 1);
    EXPECT_EQ(told->steps.comm_s, 3);
    EXPECT_TRUE(told->stop);
  });
}

TEST(StepMetrics, WhoHasNotCollectedLearnsItFromOthers) {
  with_ranks(3, [](Communicator& communicator) {
    StepMetrics books(communicator);
    const int rank = communicator.rank();
    note(books, rank, 1);
    books.tell(0, rank == 0);
    if (rank == 2) {
      ASSERT_TRUE(books.collect());
      note(books, rank, 2);  // it is ahead
    }
    const auto told = books.regroup();
    ASSERT_EQ(told.has_value(), rank != 2);
    if (told) {
      EXPECT_EQ(told->steps.step, 1);
      EXPECT_EQ(told->steps.samples, 12);
      EXPECT_EQ(told->steps.loss, 10);
      EXPECT_TRUE(told->stop);
      note(books, rank, 2);
    }
    books.tell(0, false);
    const auto next = books.collect();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->steps.step, 2);
    EXPECT_EQ(next->steps.samples, 12);
    EXPECT_FALSE(next->stop);
  });
}

TEST(StepMetrics, WhatNobodyHasCollectedIsToldAgain) {
  with_ranks(2, [](Communicator& communicator) {
    StepMetrics books(communicator);
    const int rank = communicator.rank();
    note(books, rank, 1);
    if (rank == 0) {
      note(books, rank, 2);  // rank 1 is behind
    }
    books.tell(1, false);
    EXPECT_FALSE(books.regroup());
    if (rank == 1) note(books, rank, 2);
    note(books, rank, 3);
    books.tell(1, false);
    const auto told = books.collect();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->steps.step, 3);
    EXPECT_EQ(told->steps.samples, 3 * 6);
    EXPECT_EQ(told->steps.loss, 10);
    EXPECT_EQ(told->steps.step_seconds, 1.5);
    EXPECT_EQ(told->steps.comm_s, 2);
  });
}

}  // namespace
}  // namespace asup::train
