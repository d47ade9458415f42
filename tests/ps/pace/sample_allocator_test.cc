#include "asup/ps/pace/sample_allocator.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

using Runs = std::optional<Lease>;

Workload work_of(std::uint64_t steps, std::uint64_t batch) {
  Workload work;
  work.steps = steps;
  work.batch = batch;
  work.steps_per_epoch = steps;
  return work;
}

SampleAllocator ledger_of(const Workload& work, Dealing dealing, int workers) {
  SampleAllocator allocator(work, dealing, workers);
  for (int worker = 0; worker < workers; ++worker) allocator.joins(worker);
  return allocator;
}

Lease lease(std::uint64_t step, std::uint64_t begin, std::uint64_t end) {
  return {step, begin, end};
}

TEST(SampleAllocator, FixedPartsAreThoseOfTheWorker) {
  SampleAllocator allocator = ledger_of(work_of(2, 10), Dealing::fixed, 3);
  EXPECT_EQ(allocator.lease(2, {}), lease(0, 7, 10));
  EXPECT_EQ(allocator.lease(0, {}), lease(0, 0, 4));
  EXPECT_EQ(allocator.lease(1, {}), lease(0, 4, 7));
  EXPECT_FALSE(allocator.has_lease_for(1, {}));
  for (int worker = 0; worker < 3; ++worker) allocator.done(worker, 0, false);
  EXPECT_EQ(allocator.lease(1, {}), lease(1, 4, 7));
}

TEST(SampleAllocator, FixedPartsOfAnEmptyShareRest) {
  Workload work = work_of(2, 8);
  work.steps_per_epoch = 1;
  work.last_batch = 4;
  SampleAllocator allocator = ledger_of(work, Dealing::fixed, 3);
  EXPECT_EQ(allocator.lease(2, {}), std::nullopt);
  EXPECT_EQ(allocator.lease(0, {}), lease(0, 0, 2));
  EXPECT_EQ(allocator.lease(1, {}), lease(0, 2, 4));
  EXPECT_EQ(allocator.samples_total(), 8u);
}

TEST(SampleAllocator, WhatIsToBeRedoneComesFirst) {
  SampleAllocator allocator = ledger_of(work_of(5, 6), Dealing::in_order, 3);
  for (int worker = 0; worker < 3; ++worker) (void)allocator.lease(worker, {});
  allocator.redo(1, 0);
  EXPECT_EQ(allocator.lease(1, {}), lease(0, 2, 4));
  EXPECT_EQ(allocator.samples_done(), 0u);
  allocator.done(1, 1, false);
  EXPECT_EQ(allocator.samples_done(), 2u);
  EXPECT_EQ(allocator.samples_dropped(), 0u);
}

// BatchNorm has no statistics of one sample.
TEST(SampleAllocator, NoLeaseIsOfOneSampleAlone) {
  Workload work = work_of(2, 9);
  work.steps_per_epoch = 1;
  work.last_batch = 5;
  for (const Dealing dealing : {Dealing::fixed, Dealing::in_order}) {
    SampleAllocator allocator = ledger_of(work, dealing, 4);
    EXPECT_EQ(allocator.lease(0, {}), lease(0, 0, 3));
    EXPECT_EQ(allocator.lease(1, {}), lease(0, 3, 5));
    if (dealing == Dealing::fixed) {
      EXPECT_EQ(allocator.lease(2, {}), std::nullopt);
    } else {
      EXPECT_EQ(allocator.lease(2, {}), lease(1, 0, 3));
    }
  }
}

TEST(SampleAllocator, BalancedLeasesLeaveNoSampleAlone) {
  SampleAllocator allocator = ledger_of(work_of(50, 11), Dealing::in_order, 4);
  allocator.balance({{0, 2}, {1, 1.7}, {2, 0.2}, {3, 0.1}});
  for (std::uint64_t turn = 0; turn < 40; ++turn)
    for (int worker = 0; worker < 4; ++worker) {
      const auto next = allocator.lease(worker, {});
      ASSERT_TRUE(next);
      EXPECT_GE(next->samples(), 2u);
      EXPECT_NE(next->end, 10u);
      allocator.done(worker, turn, false);
    }
}

TEST(SampleAllocator, InOrderTheNextRunGoesToWhoeverAsks) {
  SampleAllocator allocator = ledger_of(work_of(2, 10), Dealing::in_order, 3);
  EXPECT_EQ(allocator.lease(1, {}), lease(0, 0, 4));
  allocator.done(1, 0, false);
  EXPECT_EQ(allocator.lease(1, {}), lease(0, 4, 7));
  EXPECT_EQ(allocator.lease(0, {}), lease(0, 7, 10));
  EXPECT_EQ(allocator.lease(2, {}), lease(1, 0, 4));
}

TEST(SampleAllocator, WhatALostWorkerHadComesFirst) {
  SampleAllocator allocator = ledger_of(work_of(3, 6), Dealing::in_order, 3);
  for (int worker = 0; worker < 3; ++worker) (void)allocator.lease(worker, {});
  EXPECT_EQ(allocator.leaves(1), 1);
  allocator.done(0, 0, false);
  EXPECT_EQ(allocator.lease(0, {}), lease(0, 2, 4));
  allocator.done(0, 1, false);
  EXPECT_EQ(allocator.lease(0, {}), lease(1, 0, 2));
}

TEST(SampleAllocator, NothingBeyondASyncPointIsDealtOutBeforeItIsPassed) {
  for (const Dealing dealing : {Dealing::fixed, Dealing::in_order}) {
    Workload work = work_of(3, 2);
    work.sync_points = {1, 3};
    SampleAllocator allocator = ledger_of(work, dealing, 2);
    (void)allocator.lease(0, {});
    (void)allocator.lease(1, {});
    EXPECT_FALSE(allocator.at_sync_point());
    allocator.done(0, 0, false);
    EXPECT_EQ(allocator.lease(0, {}), std::nullopt);
    EXPECT_FALSE(allocator.at_sync_point());
    allocator.done(1, 0, false);
    EXPECT_TRUE(allocator.at_sync_point());
    EXPECT_EQ(allocator.sync_point(), 1u);
    allocator.pass();
    for (std::uint64_t number = 1; number < 3; ++number) {
      for (int worker = 0; worker < 2; ++worker)
        EXPECT_EQ(allocator.lease(worker, {})->step, number);
      for (int worker = 0; worker < 2; ++worker) allocator.done(worker, number, false);
    }
    EXPECT_TRUE(allocator.at_sync_point());
    EXPECT_FALSE(allocator.at_end());
    allocator.pass();
    EXPECT_TRUE(allocator.at_end());
  }
}

TEST(SampleAllocator, ASyncPointThatIsAskedForIsAtTheEndOfTheStep) {
  for (const Dealing dealing : {Dealing::fixed, Dealing::in_order}) {
    Workload work = work_of(9, 4);
    work.sync_points = {6};
    SampleAllocator allocator = ledger_of(work, dealing, 2);
    EXPECT_EQ(allocator.lease(0, {}), lease(0, 0, 2));
    allocator.sync_point_soon();
    allocator.sync_point_soon();
    EXPECT_EQ(allocator.sync_point(), 1u);
    EXPECT_EQ(allocator.lease(1, {}), lease(0, 2, 4));
    allocator.done(0, 0, false);
    EXPECT_EQ(allocator.lease(0, {}), std::nullopt);
    EXPECT_FALSE(allocator.at_sync_point());
    allocator.done(1, 0, false);
    EXPECT_TRUE(allocator.at_sync_point());
    allocator.sync_point_soon();  // they are on their way to it
    allocator.pass();
    EXPECT_EQ(allocator.sync_point(), 6u);
    EXPECT_EQ(allocator.lease(0, {}), lease(1, 0, 2));
  }
}

TEST(SampleAllocator, AResumedJobGoesOnWithoutTheSyncPointItWasSavedAt) {
  Workload work = work_of(6, 4);
  work.first_step = 4;
  work.sync_points = {2, 4, 6};
  SampleAllocator allocator = ledger_of(work, Dealing::in_order, 2);
  EXPECT_EQ(allocator.sync_point(), 6u);
  EXPECT_EQ(allocator.lease(0, {}), lease(4, 0, 2));
  EXPECT_EQ(allocator.samples_total(), 8u);
}

TEST(SampleAllocator, ASlowWorkerTakesLittleOrNothingBeforeASyncPoint) {
  Workload work = work_of(1, 400);
  SampleAllocator allocator = ledger_of(work, Dealing::in_order, 4);
  Speeds speeds;
  for (int worker = 0; worker < 3; ++worker) speeds.workers[worker] = {0.01, 0};
  speeds.workers[3] = {0.04, 0};
  // All are free: in 1.23 s they could be done, and half a lease of a fast one may come on top.
  const Runs slow = allocator.lease(3, speeds);
  EXPECT_EQ(slow, lease(0, 0, 43));
  speeds.workers[3].busy = 1.72;
  EXPECT_EQ(allocator.lease(0, speeds), lease(0, 43, 100));
  EXPECT_EQ(allocator.lease(1, speeds), lease(0, 100, 200));
  EXPECT_EQ(allocator.lease(2, speeds), lease(0, 200, 300));
  for (int worker = 0; worker < 3; ++worker) speeds.workers[worker].busy = 0.1;
  allocator.done(3, 0, false);
  EXPECT_FALSE(allocator.has_lease_for(3, speeds));  // it would take 4 s
  allocator.done(0, 0, false);
  EXPECT_TRUE(allocator.has_lease_for(0, speeds));
}

TEST(SampleAllocator, FarFromASyncPointASlowWorkerTakesAWholeLease) {
  SampleAllocator allocator = ledger_of(work_of(100, 400), Dealing::in_order, 4);
  Speeds speeds;
  for (int worker = 0; worker < 3; ++worker) speeds.workers[worker] = {0.01, 0.5};
  speeds.workers[3] = {0.04, 0};
  EXPECT_EQ(allocator.lease(3, speeds), lease(0, 0, 100));
}

TEST(SampleAllocator, BalancedLeasesShareAStep) {
  SampleAllocator allocator = ledger_of(work_of(10, 260), Dealing::in_order, 4);
  allocator.balance({{0, 16. / 13}, {1, 16. / 13}, {2, 16. / 13}, {3, 4. / 13}});
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(allocator.lease(0, {}), lease(step, 0, 80));
    EXPECT_EQ(allocator.lease(1, {}), lease(step, 80, 160));
    EXPECT_EQ(allocator.lease(2, {}), lease(step, 160, 240));
    EXPECT_EQ(allocator.lease(3, {}), lease(step, 240, 260));
    for (int worker = 0; worker < 4; ++worker) allocator.done(worker, step, false);
  }
  // Where one does not come, the others share its part.
  EXPECT_EQ(allocator.lease(3, {}), lease(3, 0, 20));
  for (std::uint64_t round = 0; round < 2; ++round) {
    std::uint64_t samples = 0;
    for (int worker = 0; worker < 3; ++worker) samples += allocator.lease(worker, {})->samples();
    EXPECT_EQ(samples, round == 0 ? 240u : 260u);
    for (int worker = 0; worker < 3; ++worker) allocator.done(worker, 3 + round, false);
  }
}

TEST(SampleAllocator, BalancedLeasesAreOfWholeGrains) {
  Workload work = work_of(9, 24);
  work.grain = 4;
  SampleAllocator allocator = ledger_of(work, Dealing::in_order, 2);
  allocator.balance({{0, 1.7}, {1, 0.3}});
  EXPECT_EQ(allocator.lease(0, {}), lease(0, 0, 20));
  EXPECT_EQ(allocator.lease(1, {}), lease(0, 20, 24));
  for (const int worker : {0, 1}) allocator.done(worker, 0, false);
  allocator.balance({{0, 1.4}, {1, 0.6}});
  EXPECT_EQ(allocator.lease(0, {}), lease(1, 0, 16));
  EXPECT_EQ(allocator.lease(1, {}), lease(1, 16, 24));
  for (const int worker : {0, 1}) allocator.done(worker, 1, false);
  allocator.balance({{0, 0.01}, {1, 1.99}});
  EXPECT_EQ(allocator.lease(0, {}), lease(2, 0, 4));
  EXPECT_EQ(allocator.lease(1, {}), lease(2, 4, 24));
  work.last_batch = 9;
  work.steps_per_epoch = 1;
  SampleAllocator shorter = ledger_of(work, Dealing::in_order, 2);
  shorter.balance({{0, 1}, {1, 1}});
  EXPECT_EQ(shorter.lease(0, {}), lease(0, 0, 4));
  EXPECT_EQ(shorter.lease(1, {}), lease(0, 4, 9));
}

TEST(SampleAllocator, WorkThatMakesNoSenseIsRefused) {
  EXPECT_THROW(require_sense(work_of(0, 4)), BadInput);
  EXPECT_THROW(require_sense(work_of(4, 0)), BadInput);
  Workload work = work_of(4, 4);
  work.sync_points = {3, 2};
  EXPECT_THROW(require_sense(work), BadInput);
  work.sync_points = {5};
  EXPECT_THROW(require_sense(work), BadInput);
  work = work_of(4, 4);
  work.last_batch = 5;
  EXPECT_THROW(require_sense(work), BadInput);
  work = work_of(4, 4);
  work.first_step = 5;
  EXPECT_THROW(require_sense(work), BadInput);
}

}  // namespace
}  // namespace asup::ps::pace
