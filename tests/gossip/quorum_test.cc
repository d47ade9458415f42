#include "asup/gossip/quorum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "asup/base/error.h"
#include "tests/support/ranks.h"

namespace asup::gossip::testing {
namespace {

using net::LinkKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Seconds kTimeout{60};
const std::vector<int> kBoth{0, 1}, kAll{0, 1, 2};

class QuorumOnEveryLink : public ::testing::TestWithParam<LinkKind> {};

TEST_P(QuorumOnEveryLink, WhoComesInTimeMeets) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    for (std::uint64_t number = 1; number < 20; ++number) {
      const auto round = quorum.come(number, kAll, Seconds(0), kTimeout);
      EXPECT_EQ(round.number, number);
      EXPECT_THAT(round.workers, ElementsAre(0, 1, 2));
    }
  });
}

// It comes to its first round when the others have held three.
TEST_P(QuorumOnEveryLink, WhoIsLateComesToTheNextRound) {
  std::barrier three_were_held(2);
  asup::testing::run_ranks(2, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    std::uint64_t number = 1;
    if (job.rank() == 1) {
      three_were_held.arrive_and_wait();
      const auto missed = quorum.come(number, kBoth, Seconds(0), kTimeout);
      EXPECT_THAT(missed.workers, IsEmpty());
      EXPECT_LE(missed.number, 3u);  // or fewer, where it has not heard of all yet
      number = missed.number + 1;
      while (number < 4) {
        const auto next = quorum.come(number, kBoth, Seconds(0), kTimeout);
        EXPECT_THAT(next.workers, IsEmpty());
        number = next.number + 1;
      }
    } else {
      for (; number < 4; ++number)
        EXPECT_THAT(quorum.come(number, kBoth, Seconds(0.02), kTimeout).workers, ElementsAre(0));
      three_were_held.arrive_and_wait();
    }
    EXPECT_EQ(number, 4u);
    const auto round = quorum.come(number, kBoth, Seconds(0), kTimeout);
    EXPECT_EQ(round.number, 4u);
    EXPECT_THAT(round.workers, ElementsAre(0, 1));
  });
}

TEST_P(QuorumOnEveryLink, WhereOneIsGoneNobodyWaits) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    if (job.rank() == 0) return;
    EXPECT_THAT(quorum.come(1, kAll, Seconds(0), kTimeout).workers, ElementsAre(0, 1, 2));
    const auto round = quorum.come(2, {1, 2}, Seconds(0), kTimeout);
    EXPECT_THAT(round.workers, ElementsAre(1, 2));
  });
}

// It was done without as one that is late. Now that it is gone, all who are left are to find out.
TEST_P(QuorumOnEveryLink, WhereOneThatWasLateIsGoneAllAreToMeet) {
  std::barrier two_have_met(3);
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    if (job.rank() == 2) {
      two_have_met.arrive_and_wait();
      return;
    }
    Quorum::Round round;
    while (round.workers != kBoth)  // rank 1 may be late too
      round = quorum.come(round.number + 1, kAll, Seconds(0.02), kTimeout);
    two_have_met.arrive_and_wait();
    round = quorum.come(round.number + 1, kAll, kTimeout, kTimeout);
    EXPECT_THAT(round.workers, ElementsAre(0, 1, 2));
    EXPECT_EQ(round.allowed, Seconds(0));
  });
}

// All reach all places, round after round, as the same group from the begin.
TEST_P(QuorumOnEveryLink, WhatAllHaveReachedIsAgreed) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    for (std::uint64_t number = 1; number < 10; ++number) {
      const auto round = quorum.come(number, kAll, kTimeout, kTimeout);
      EXPECT_THAT(round.workers, ElementsAre(0, 1, 2));
      EXPECT_EQ(round.since, 0u);
      EXPECT_EQ(round.allowed, kTimeout);
      EXPECT_TRUE(quorum.agree(Quorum::Milestone::merged, kTimeout));
      if (number % 2 == 0) {
        EXPECT_TRUE(quorum.agree(Quorum::Milestone::counted, kTimeout));
      }
      EXPECT_TRUE(quorum.agree(Quorum::Milestone::ended, kTimeout));
    }
  });
}

// Nobody is late: all try again, as a new group, and have more time for it.
TEST_P(QuorumOnEveryLink, WhatOneGivesUpIsGivenUpByAll) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    quorum.come(1, kAll, kTimeout, kTimeout);
    if (job.rank() != 1) {
      EXPECT_FALSE(quorum.agree(Quorum::Milestone::merged, kTimeout));
    }
    quorum.give_up();
    for (std::uint64_t number = 2; number < 5; ++number) {
      const auto round = quorum.come(number, kAll, kTimeout, kTimeout);
      EXPECT_EQ(round.number, number);
      EXPECT_EQ(round.since, 2u);
      EXPECT_THAT(round.workers, ElementsAre(0, 1, 2));
      if (number == 2) {
        EXPECT_EQ(round.allowed, 2 * kTimeout);
      }
      EXPECT_TRUE(quorum.agree(Quorum::Milestone::merged, kTimeout));
      EXPECT_TRUE(quorum.agree(Quorum::Milestone::ended, kTimeout));
    }
    EXPECT_EQ(quorum.come(5, kAll, Seconds(0), kTimeout).allowed, Seconds(0));
  });
}

// Rank 2 comes to the first round and is not heard of until the others have given it up, and met
// without it; it hears that, comes to the next, and the same once more.
TEST_P(QuorumOnEveryLink, WhoHoldsARoundUpIsLeftOut) {
  constexpr Seconds kPatience{0.05};
  std::barrier met_without_it(3);
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    const auto hold = [&] {
      EXPECT_TRUE(quorum.agree(Quorum::Milestone::merged, kTimeout));
      EXPECT_TRUE(quorum.agree(Quorum::Milestone::ended, kTimeout));
    };
    const bool is_slow = job.rank() == 2;
    for (const std::uint64_t number : {1, 3}) {
      EXPECT_THAT(quorum.come(number, kAll, Seconds(60), kTimeout).workers, ElementsAre(0, 1, 2));
      if (is_slow) {
        met_without_it.arrive_and_wait();
        EXPECT_FALSE(quorum.agree(Quorum::Milestone::merged, kTimeout));
        quorum.give_up();
        const auto round = quorum.come(number + 1, kAll, kPatience, kTimeout);
        EXPECT_GE(round.number, number + 1);  // or it has heard of the next one too
        EXPECT_THAT(round.workers, IsEmpty());
      } else {
        quorum.give_up();
        // Rank 0's patience with rank 1 is not what is tested.
        if (job.rank() == 1) quorum.come(number + 1, kAll, kPatience, kTimeout);
        if (job.rank() == 0) {
          auto round = quorum.come(number + 1, kAll, Seconds(3), kTimeout);
          EXPECT_THAT(round.workers, ElementsAre(0, 1));
          EXPECT_EQ(round.since, number + 1);
        }
        hold();
        met_without_it.arrive_and_wait();
      }
    }
    EXPECT_THAT(quorum.come(5, kAll, kTimeout, kTimeout).workers, ElementsAre(0, 1, 2));
    hold();
  });
}

TEST_P(QuorumOnEveryLink, WhereOneIsGoneNothingIsAgreed) {
  std::barrier all_have_come(3);
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    quorum.come(1, kAll, kTimeout, kTimeout);
    all_have_come.arrive_and_wait();
    if (job.rank() == 2) return;
    EXPECT_FALSE(quorum.agree(Quorum::Milestone::merged, kTimeout));
    quorum.give_up();
    EXPECT_THAT(quorum.come(2, kAll, kTimeout, kTimeout).workers, ElementsAre(0, 1, 2));
    quorum.regrouped(kBoth);
    EXPECT_EQ(quorum.come(3, kBoth, kTimeout, kTimeout).since, 0u);
  });
}

TEST_P(QuorumOnEveryLink, WhereTheFirstIsGoneTheOthersLoseIt) {
  std::barrier all_have_come(2);
  asup::testing::run_ranks(2, GetParam(), [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    quorum.come(1, kBoth, kTimeout, kTimeout);
    all_have_come.arrive_and_wait();
    if (job.rank() == 0) return;
    EXPECT_THROW(quorum.agree(Quorum::Milestone::merged, kTimeout), PeerLost);
  });
}

TEST(Quorum, WhoNeverComesIsNamed) {
  std::barrier it_was_missed(2);
  asup::testing::run_ranks(2, LinkKind::inproc, [&](Job& job) {
    Quorum quorum(net::workers_of(job));
    if (job.rank() == 0) {
      try {
        quorum.come(1, {0, 1}, Seconds(0), Seconds(0.05));
        ADD_FAILURE() << "it came";
      } catch (const JobFailed& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 1 did not come"));
      }
    }
    it_was_missed.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Links, QuorumOnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::gossip::testing
