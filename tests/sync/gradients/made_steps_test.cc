// Whom those who are left follow, by the steps that each has made.
#include "asup/sync/gradients/made_steps.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::train_ranks;

TEST(MadeSteps, TheFirstOfTheFurthestIsFollowed) {
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto found = sync::furthest_steps(
        communicator, {.steps = rank == 0 ? 6u : 7u, .exchanges = 8u - rank, .skipped = rank == 1});
    EXPECT_EQ(found.steps, 7u);
    EXPECT_EQ(found.rank, 1);
    EXPECT_TRUE(found.skipped);
    EXPECT_FALSE(found.by_all);
    EXPECT_EQ(found.exchanges, 8u);
  });
}

TEST(MadeSteps, WhoHasAveragesGivesThemToThoseOfAsManySteps) {
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) {
    const auto rank = static_cast<std::uint64_t>(communicator.rank());
    sync::MadeSteps here{.steps = 4, .rounds = rank == 1 ? 1u : 0u, .holds_averages = rank == 1};
    EXPECT_EQ(sync::furthest_steps(communicator, here).holder, std::optional(1));
    here.rounds = 1;
    EXPECT_EQ(sync::furthest_steps(communicator, here).holder, std::nullopt);
    here = {.steps = 4, .rounds = rank};
    EXPECT_THROW(sync::furthest_steps(communicator, here), PeerLost);
  });
}

TEST(MadeSteps, NobodyFollowsWhoWasTakingOverItself) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto half = std::optional<std::uint64_t>();
    const auto found = sync::furthest_steps(
        communicator, {.steps = rank == 0 ? half : std::optional<std::uint64_t>(0)});
    EXPECT_EQ(found.rank, 1);
    EXPECT_FALSE(found.by_all);
    EXPECT_THROW(sync::furthest_steps(communicator, {.steps = half}), PeerLost);
  });
}

}  // namespace
}  // namespace asup
