#include "asup/train/loop/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using When = Metrics::When;

void with_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  testing::run_ranks(ranks, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    body(*communicator);
  });
}

// Of one worker alone.
Metrics::Sums sums_of(Metrics& metrics, std::int64_t step, double now) {
  metrics.start(step, now, false, When::at_collect);
  return metrics.collect().value();
}

std::vector<std::int64_t> steps_of(const Metrics::Sums& sums) {
  std::vector<std::int64_t> steps;
  for (const Metrics::Row& row : sums.rows) steps.push_back(row.step);
  return steps;
}

std::vector<double> samples_of(const Metrics::Sums& sums) {
  std::vector<double> samples;
  for (const Metrics::Row& row : sums.rows) samples.push_back(row.samples);
  return samples;
}

std::vector<double> ends_of(const Metrics::Sums& sums) {
  std::vector<double> ends;
  for (const Metrics::Row& row : sums.rows) ends.push_back(row.ended);
  return ends;
}

// A step that was skipped is in the row of its interval; who gives up tells its loss.
TEST(Metrics, SkippedStepsAreCounted) {
  with_ranks(2, [](Communicator& communicator) {
    using GivesUp = Metrics::GivesUp;
    Metrics metrics(communicator, 5);
    const bool first = communicator.rank() == 0;
    metrics.add(1, 6, 2);
    metrics.leave_out(2, 3);
    metrics.skip(2, first ? 1 : 0, GivesUp::no, std::nan(""));
    metrics.leave_out(7, 3);
    metrics.skip(7, 1, first ? GivesUp::lately : GivesUp::in_succession, std::nan(""));
    metrics.start(10, 0, false, When::at_collect);
    const Metrics::Sums sums = metrics.collect().value();
    ASSERT_EQ(sums.rows.size(), 2u);
    EXPECT_EQ(sums.rows[0].samples, 4);
    EXPECT_EQ(sums.rows[0].left_out, 6);
    EXPECT_EQ(sums.rows[0].skipped, 1);
    EXPECT_EQ(sums.rows[0].diverged, 0) << "a loss that is left out";
    EXPECT_EQ(sums.rows[1].skipped, 2);
    EXPECT_EQ(sums.rows[1].given_up, 2);
    EXPECT_EQ(sums.rows[1].in_succession, 1);
    EXPECT_TRUE(std::isnan(sums.rows[1].diverged));
  });
}

// Rows end where logging intervals do, counted from the run's begin, and at the sync point.
TEST(Metrics, RowsAreThoseOfLoggingIntervals) {
  with_ranks(1, [](Communicator& communicator) {
    Metrics metrics(communicator, 5);
    EXPECT_FALSE(metrics.collect());
    EXPECT_THAT(steps_of(sums_of(metrics, 12, 0)), ElementsAre(5, 10, 12));
    EXPECT_THAT(steps_of(sums_of(metrics, 21, 0)), ElementsAre(15, 20, 21));
    EXPECT_TRUE(sums_of(metrics, 21, 0).rows.empty());
  });
}

TEST(Metrics, LeasesCountWhereTheirStepIs) {
  with_ranks(1, [](Communicator& communicator) {
    Metrics metrics(communicator, 5);
    metrics.begin(12, 100);
    metrics.add(14, 3, 8);
    metrics.add(12, 1, 4);
    metrics.add(20, 7, 8);
    metrics.took(20, 0.5, 101);
    const auto sums = sums_of(metrics, 17, 102);
    EXPECT_THAT(samples_of(sums), ElementsAre(12, 8)) << "nothing is left out";
    EXPECT_EQ(sums.rows[0].loss, 4);
    EXPECT_EQ(sums.rows[1].waited, 0.5);
    EXPECT_THAT(samples_of(sums_of(metrics, 23, 103)), ElementsAre(0, 0));
  });
}

TEST(Metrics, WhoWasLateCountsWhereTheOthersAre) {
  with_ranks(1, [](Communicator& communicator) {
    Metrics metrics(communicator, 5);
    metrics.begin(12, 100);
    metrics.add(14, 3, 8);
    metrics.add(20, 7, 8);
    metrics.go_on_from(34, 104, 2);
    EXPECT_EQ(metrics.collected(), 2);
    const auto sums = sums_of(metrics, 40, 105);
    EXPECT_THAT(samples_of(sums), ElementsAre(16, 0));
    EXPECT_EQ(sums.rows[0].began, 104);
  });
}

TEST(Metrics, RefusesWhatBelongsToRowsThatAreSummed) {
  with_ranks(1, [](Communicator& communicator) {
    Metrics metrics(communicator, 5);
    metrics.begin(12, 100);
    metrics.add(10, 3, 8);  // the row goes on
    EXPECT_THROW(metrics.add(9, 3, 8), Error);
  });
}

TEST(Metrics, TimesAreThisWorkersAndFilledInBetween) {
  with_ranks(1, [](Communicator& communicator) {
    Metrics metrics(communicator, 1);
    metrics.begin(0, 10);
    metrics.took(0, 0, 11);
    metrics.took(3, 0, 17);
    EXPECT_THAT(ends_of(sums_of(metrics, 5, 20)), ElementsAre(11, 13, 15, 17, 20));
    EXPECT_THAT(ends_of(sums_of(metrics, 7, 24)), ElementsAre(DoubleEq(22), DoubleEq(24)))
        << "it had nothing to do";
    metrics.resume(25);
    metrics.took(8, 0, 26);
    metrics.took(7, 0, 28);  // another's lease, which was lost
    const auto sums = sums_of(metrics, 9, 29);
    EXPECT_EQ(sums.rows[0].began, 25);
    EXPECT_THAT(ends_of(sums), ElementsAre(28, 29));
  });
}

// Rank r has 2 (r + 1) samples of each step, with a loss of 10 each.
void add(Metrics& metrics, int rank, std::int64_t step) {
  const double samples = 2 * (rank + 1);
  metrics.add(step - 1, 10 * samples, samples);
  metrics.took(step - 1, 1, static_cast<double>(step));
}

TEST(Metrics, SumsUpWhatAllHaveAdded) {
  with_ranks(2, [](Communicator& communicator) {
    Metrics metrics(communicator, 10);
    add(metrics, communicator.rank(), 1);
    add(metrics, communicator.rank(), 2);
    metrics.start(2, 2, communicator.rank() == 1, When::beside);
    const auto sums = metrics.collect();
    ASSERT_TRUE(sums);
    ASSERT_EQ(sums->rows.size(), 1);
    EXPECT_EQ(sums->rows[0].step, 2);
    EXPECT_EQ(sums->rows[0].samples, 12);
    EXPECT_EQ(sums->rows[0].loss, 120);
    EXPECT_EQ(sums->rows[0].waited, 2);
    EXPECT_EQ(sums->rows[0].ended, 2);
    EXPECT_TRUE(sums->stop);
  });
}

TEST(Metrics, WhoHasNotCollectedLearnsItFromOthers) {
  with_ranks(3, [](Communicator& communicator) {
    Metrics metrics(communicator, 1);
    const int rank = communicator.rank();
    add(metrics, rank, 1);
    metrics.start(1, 1, rank == 0, When::beside);
    if (rank == 2) {
      ASSERT_TRUE(metrics.collect());
      add(metrics, rank, 2);  // it is ahead
    }
    const auto sums = metrics.regroup();
    ASSERT_EQ(sums.has_value(), rank != 2);
    if (sums) {
      EXPECT_THAT(samples_of(*sums), ElementsAre(12));
      EXPECT_TRUE(sums->stop);
      add(metrics, rank, 2);
    }
    metrics.start(2, 2, false, When::beside);
    const auto next = metrics.collect();
    ASSERT_TRUE(next);
    EXPECT_THAT(steps_of(*next), ElementsAre(2));
    EXPECT_THAT(samples_of(*next), ElementsAre(12));
    EXPECT_FALSE(next->stop);
  });
}

TEST(Metrics, WhatNobodyHasCollectedIsToldAgain) {
  with_ranks(2, [](Communicator& communicator) {
    Metrics metrics(communicator, 10);
    const int rank = communicator.rank();
    add(metrics, rank, 1);
    if (rank == 0) add(metrics, rank, 2);  // rank 1 is behind
    metrics.start(rank == 0 ? 2 : 1, 2, false, When::beside);
    EXPECT_FALSE(metrics.regroup());
    if (rank == 1) add(metrics, rank, 2);
    add(metrics, rank, 3);
    metrics.start(3, 3, false, When::beside);
    const auto sums = metrics.collect();
    ASSERT_TRUE(sums);
    EXPECT_THAT(steps_of(*sums), ElementsAre(3));
    EXPECT_THAT(samples_of(*sums), ElementsAre(3 * 6));
    EXPECT_EQ(sums->rows[0].waited, 3);
  });
}

// Where not all have the sums, nobody takes them.
TEST(Metrics, SumsThatAreRefusedStay) {
  with_ranks(2, [](Communicator& communicator) {
    Metrics metrics(communicator, 10);
    add(metrics, communicator.rank(), 1);
    metrics.start(1, 1, false, When::at_collect);
    EXPECT_THROW(metrics.collect([] { throw JobFailed("too late"); }), JobFailed);
    metrics.put_back();
    EXPECT_EQ(metrics.first(), 0);
    EXPECT_EQ(metrics.collected(), 0);
    metrics.start(1, 1, false, When::at_collect);
    EXPECT_THAT(samples_of(metrics.collect().value()), ElementsAre(6));
  });
}

}  // namespace
}  // namespace asup::train
