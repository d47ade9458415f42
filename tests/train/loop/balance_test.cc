#include "asup/train/loop/balance.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

using Parts = std::vector<std::int64_t>;

// One round: every rank works on its part in some steps, and then all tell.
bool round(Balance& balance, const Communicator& communicator, double seconds_of_sample,
           double fixed_seconds = 0) {
  const auto own = balance.parts()[static_cast<std::size_t>(communicator.rank())];
  for (int step = 0; step < 10; ++step)
    balance.worked(own, fixed_seconds + static_cast<double>(own) * seconds_of_sample);
  balance.start();
  return balance.collect();
}

void with_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  testing::run_ranks(ranks, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    body(*communicator);
  });
}

TEST(Balance, TheSlowOneEndsUpWithLess) {
  with_ranks(3, [](Communicator& communicator) {
    Balance balance(communicator, 70, {});
    EXPECT_EQ(balance.parts(), (Parts{24, 23, 23}));
    const double seconds = std::array{0.001, 0.002, 0.004}[communicator.rank()];
    for (int i = 0; i < 12; ++i) round(balance, communicator, seconds);
    // The fixed share of a step, which is 0 here, is estimated as parts change; so about 40,
    // 20, 10.
    EXPECT_NEAR(static_cast<double>(balance.parts()[0]), 40, 2);
    EXPECT_NEAR(static_cast<double>(balance.parts()[1]), 20, 2);
    EXPECT_NEAR(static_cast<double>(balance.parts()[2]), 10, 2);
    EXPECT_FALSE(round(balance, communicator, seconds));
  });
}

TEST(Balance, FollowsWorkersWhoseSpeedChanges) {
  with_ranks(2, [](Communicator& communicator) {
    Balance balance(communicator, 100, {});
    const bool first = communicator.rank() == 0;
    for (int i = 0; i < 6; ++i) round(balance, communicator, first ? 0.003 : 0.001);
    EXPECT_LT(balance.parts()[0], 30);
    for (int i = 0; i < 6; ++i) round(balance, communicator, 0.001);
    EXPECT_NEAR(static_cast<double>(balance.parts()[0]), 50, 4);
  });
}

TEST(Balance, WhatIsNotKnownChangesNothing) {
  with_ranks(2, [](Communicator& communicator) {
    Balance balance(communicator, 24, {});
    balance.start();
    EXPECT_FALSE(balance.collect());
    EXPECT_FALSE(balance.collect());
    // Rank 1 has only worked on shorter batches.
    for (int i = 0; i < 10; ++i) balance.worked(communicator.rank() == 0 ? 12 : 5, 1);
    balance.start();
    EXPECT_FALSE(balance.collect());
    EXPECT_EQ(balance.parts(), (Parts{12, 12}));
  });
}

TEST(Balance, GoesOnWithPartsOfTheBatchAlone) {
  with_ranks(2, [](Communicator& communicator) {
    EXPECT_EQ(Balance(communicator, 24, {20, 4}).parts(), (Parts{20, 4}));
    EXPECT_EQ(Balance(communicator, 24, {20, 20}).parts(), (Parts{12, 12}));
    EXPECT_EQ(Balance(communicator, 24, {24, 0}).parts(), (Parts{12, 12}));
  });
}

}  // namespace
}  // namespace asup::train
