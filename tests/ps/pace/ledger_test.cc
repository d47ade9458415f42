#include "asup/ps/pace/ledger.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

using Runs = std::optional<Lease>;

Work work_of(std::uint64_t steps, std::uint64_t batch) {
  Work work;
  work.steps = steps;
  work.batch = batch;
  work.steps_per_epoch = steps;
  return work;
}

Ledger ledger_of(const Work& work, Dealing dealing, int workers) {
  Ledger ledger(work, dealing, workers);
  for (int worker = 0; worker < workers; ++worker) ledger.joins(worker);
  return ledger;
}

Lease lease(std::uint64_t step, std::uint64_t begin, std::uint64_t end) {
  return {step, begin, end};
}

TEST(Ledger, FixedPartsAreThoseOfTheWorker) {
  Ledger ledger = ledger_of(work_of(2, 10), Dealing::fixed, 3);
  EXPECT_EQ(ledger.lease(2, {}), lease(0, 7, 10));
  EXPECT_EQ(ledger.lease(0, {}), lease(0, 0, 4));
  EXPECT_EQ(ledger.lease(1, {}), lease(0, 4, 7));
  EXPECT_FALSE(ledger.has_lease_for(1, {}));
  for (int worker = 0; worker < 3; ++worker) ledger.done(worker, 0, false);
  EXPECT_EQ(ledger.lease(1, {}), lease(1, 4, 7));
}

TEST(Ledger, FixedPartsOfAnEmptyShareRest) {
  Work work = work_of(2, 8);
  work.steps_per_epoch = 1;
  work.last_batch = 2;
  Ledger ledger = ledger_of(work, Dealing::fixed, 3);
  EXPECT_EQ(ledger.lease(2, {}), std::nullopt);
  EXPECT_EQ(ledger.lease(0, {}), lease(0, 0, 1));
  EXPECT_EQ(ledger.lease(1, {}), lease(0, 1, 2));
  EXPECT_EQ(ledger.samples_total(), 4u);
}

TEST(Ledger, ALateWorkerGoesOnWithTheStepThatTheOthersAreAt) {
  Ledger ledger = ledger_of(work_of(5, 6), Dealing::fixed, 3);
  for (int worker = 0; worker < 3; ++worker) (void)ledger.lease(worker, {});
  for (std::uint64_t step = 0; step < 3; ++step)
    for (int worker = 0; worker < 2; ++worker) {
      ledger.done(worker, step, false);
      EXPECT_EQ(ledger.lease(worker, {})->step, step + 1);
    }
  ledger.done(2, 0, true);
  EXPECT_EQ(ledger.lease(2, {}), lease(3, 4, 6));
  EXPECT_EQ(ledger.samples_dropped(), 2u);
  EXPECT_EQ(ledger.samples_skipped(), 4u);  // its parts of steps 1 and 2
}

TEST(Ledger, InOrderTheNextRunGoesToWhoeverAsks) {
  Ledger ledger = ledger_of(work_of(2, 10), Dealing::in_order, 3);
  EXPECT_EQ(ledger.lease(1, {}), lease(0, 0, 4));
  ledger.done(1, 0, false);
  EXPECT_EQ(ledger.lease(1, {}), lease(0, 4, 7));
  EXPECT_EQ(ledger.lease(0, {}), lease(0, 7, 10));
  EXPECT_EQ(ledger.lease(2, {}), lease(1, 0, 4));
}

TEST(Ledger, WhatALostWorkerHadComesFirst) {
  Ledger ledger = ledger_of(work_of(3, 6), Dealing::in_order, 3);
  for (int worker = 0; worker < 3; ++worker) (void)ledger.lease(worker, {});
  EXPECT_EQ(ledger.leaves(1), 1);
  ledger.done(0, 0, false);
  EXPECT_EQ(ledger.lease(0, {}), lease(0, 2, 4));
  ledger.done(0, 1, false);
  EXPECT_EQ(ledger.lease(0, {}), lease(1, 0, 2));
}

TEST(Ledger, NothingBeyondAFenceIsDealtOutBeforeItIsPassed) {
  for (const Dealing dealing : {Dealing::fixed, Dealing::in_order}) {
    Work work = work_of(3, 2);
    work.fences = {1, 3};
    Ledger ledger = ledger_of(work, dealing, 2);
    (void)ledger.lease(0, {});
    (void)ledger.lease(1, {});
    EXPECT_FALSE(ledger.at_fence());
    ledger.done(0, 0, false);
    EXPECT_EQ(ledger.lease(0, {}), std::nullopt);
    EXPECT_FALSE(ledger.at_fence());
    ledger.done(1, 0, false);
    EXPECT_TRUE(ledger.at_fence());
    EXPECT_EQ(ledger.fence(), 1u);
    ledger.pass();
    for (std::uint64_t number = 1; number < 3; ++number) {
      for (int worker = 0; worker < 2; ++worker) EXPECT_EQ(ledger.lease(worker, {})->step, number);
      for (int worker = 0; worker < 2; ++worker) ledger.done(worker, number, false);
    }
    EXPECT_TRUE(ledger.at_fence());
    EXPECT_FALSE(ledger.at_end());
    ledger.pass();
    EXPECT_TRUE(ledger.at_end());
  }
}

TEST(Ledger, AFenceThatIsAskedForIsAtTheEndOfTheStep) {
  for (const Dealing dealing : {Dealing::fixed, Dealing::in_order}) {
    Work work = work_of(9, 4);
    work.fences = {6};
    Ledger ledger = ledger_of(work, dealing, 2);
    EXPECT_EQ(ledger.lease(0, {}), lease(0, 0, 2));
    ledger.fence_soon();
    ledger.fence_soon();
    EXPECT_EQ(ledger.fence(), 1u);
    EXPECT_EQ(ledger.lease(1, {}), lease(0, 2, 4));
    ledger.done(0, 0, false);
    EXPECT_EQ(ledger.lease(0, {}), std::nullopt);
    EXPECT_FALSE(ledger.at_fence());
    ledger.done(1, 0, false);
    EXPECT_TRUE(ledger.at_fence());
    ledger.fence_soon();  // they are on their way to it
    ledger.pass();
    EXPECT_EQ(ledger.fence(), 6u);
    EXPECT_EQ(ledger.lease(0, {}), lease(1, 0, 2));
  }
}

TEST(Ledger, AResumedJobGoesOnWithoutTheFenceItWasSavedAt) {
  Work work = work_of(6, 4);
  work.first_step = 4;
  work.fences = {2, 4, 6};
  Ledger ledger = ledger_of(work, Dealing::in_order, 2);
  EXPECT_EQ(ledger.fence(), 6u);
  EXPECT_EQ(ledger.lease(0, {}), lease(4, 0, 2));
  EXPECT_EQ(ledger.samples_total(), 8u);
}

TEST(Ledger, ASlowWorkerTakesLittleOrNothingBeforeAFence) {
  Work work = work_of(1, 400);
  Ledger ledger = ledger_of(work, Dealing::in_order, 4);
  Speeds speeds;
  for (int worker = 0; worker < 3; ++worker) speeds.workers[worker] = {0.01, 0};
  speeds.workers[3] = {0.04, 0};
  // All are free: in 1.23 s they could be done, and half a lease of a fast one may come on top.
  const Runs slow = ledger.lease(3, speeds);
  EXPECT_EQ(slow, lease(0, 0, 43));
  speeds.workers[3].busy = 1.72;
  EXPECT_EQ(ledger.lease(0, speeds), lease(0, 43, 100));
  EXPECT_EQ(ledger.lease(1, speeds), lease(0, 100, 200));
  EXPECT_EQ(ledger.lease(2, speeds), lease(0, 200, 300));
  for (int worker = 0; worker < 3; ++worker) speeds.workers[worker].busy = 0.1;
  ledger.done(3, 0, false);
  EXPECT_FALSE(ledger.has_lease_for(3, speeds));  // it would take 4 s
  ledger.done(0, 0, false);
  EXPECT_TRUE(ledger.has_lease_for(0, speeds));
}

TEST(Ledger, FarFromAFenceASlowWorkerTakesAWholeLease) {
  Ledger ledger = ledger_of(work_of(100, 400), Dealing::in_order, 4);
  Speeds speeds;
  for (int worker = 0; worker < 3; ++worker) speeds.workers[worker] = {0.01, 0.5};
  speeds.workers[3] = {0.04, 0};
  EXPECT_EQ(ledger.lease(3, speeds), lease(0, 0, 100));
}

TEST(Ledger, BalancedLeasesShareAStep) {
  Ledger ledger = ledger_of(work_of(10, 260), Dealing::in_order, 4);
  ledger.balance({{0, 16. / 13}, {1, 16. / 13}, {2, 16. / 13}, {3, 4. / 13}});
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(ledger.lease(0, {}), lease(step, 0, 80));
    EXPECT_EQ(ledger.lease(1, {}), lease(step, 80, 160));
    EXPECT_EQ(ledger.lease(2, {}), lease(step, 160, 240));
    EXPECT_EQ(ledger.lease(3, {}), lease(step, 240, 260));
    for (int worker = 0; worker < 4; ++worker) ledger.done(worker, step, false);
  }
  // Where one does not come, the others share its part.
  EXPECT_EQ(ledger.lease(3, {}), lease(3, 0, 20));
  for (std::uint64_t round = 0; round < 2; ++round) {
    std::uint64_t samples = 0;
    for (int worker = 0; worker < 3; ++worker) samples += ledger.lease(worker, {})->samples();
    EXPECT_EQ(samples, round == 0 ? 240u : 260u);
    for (int worker = 0; worker < 3; ++worker) ledger.done(worker, 3 + round, false);
  }
}

TEST(Ledger, WorkThatMakesNoSenseIsRefused) {
  EXPECT_THROW(require_sense(work_of(0, 4)), BadInput);
  EXPECT_THROW(require_sense(work_of(4, 0)), BadInput);
  Work work = work_of(4, 4);
  work.fences = {3, 2};
  EXPECT_THROW(require_sense(work), BadInput);
  work.fences = {5};
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
