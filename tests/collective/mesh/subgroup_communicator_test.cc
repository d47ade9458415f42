#include "asup/collective/mesh/subgroup_communicator.h"

#include <gtest/gtest.h>

#include <barrier>

#include "tests/support/ranks.h"

namespace asup {
namespace {

using net::LinkKind;

class SubgroupOnEveryLink : public ::testing::TestWithParam<LinkKind> {};

double sum_of_ranks(Communicator& communicator, double own) {
  communicator.all_reduce(buffer_of(std::span(&own, 1))).or_throw();
  return own;
}

TEST_P(SubgroupOnEveryLink, GroupsComeAndGo) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    SubgroupCommunicator communicator(job, {});
    const double own = job.rank() + 1;
    EXPECT_EQ(sum_of_ranks(communicator, own), 6);
    for (const std::uint64_t since : {2, 5}) {
      if (job.rank() != 1) {
        communicator.regroup(since, {0, 2});
        EXPECT_EQ(communicator.rank(), job.rank() / 2);
        EXPECT_EQ(sum_of_ranks(communicator, own), 4);
        communicator.regroup(since, {0, 2});  // undisturbed
        EXPECT_EQ(sum_of_ranks(communicator, own), 4);
      }
      const std::uint64_t before = communicator.bytes_moved();
      communicator.regroup(since + 1, {0, 1, 2});
      EXPECT_EQ(communicator.bytes_moved(), before);
      EXPECT_EQ(sum_of_ranks(communicator, own), 6);
    }
  });
}

// The others go on without a call that could fail: rank 1 does not wait for them in its next one,
// though their links answer.
TEST_P(SubgroupOnEveryLink, AGroupThatIsAbandonedEndsItsCalls) {
  std::barrier gone_on(3);
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    SubgroupCommunicator communicator(job, {});
    communicator.bound(Deadline::max(), Seconds(60));
    if (job.rank() != 1) {
      communicator.abandon();
      communicator.regroup(2, {0, 2});
      EXPECT_EQ(sum_of_ranks(communicator, job.rank() + 1), 4);
    }
    gone_on.arrive_and_wait();
    if (job.rank() == 1) {
      std::vector<double> values(100, 1);
      const Outcome outcome = communicator.all_reduce(buffer_of(std::span(values)));
      EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
      EXPECT_TRUE(communicator.was_late());
    }
    communicator.regroup(3, {0, 1, 2});
    EXPECT_EQ(sum_of_ranks(communicator, job.rank() + 1), 6);
  });
}

// Rank 1 comes to a call that the others have given up, and hears of it; the next is among all.
TEST_P(SubgroupOnEveryLink, ACallThatIsBoundEndsAsLate) {
  std::barrier given_up(3);
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    SubgroupCommunicator communicator(job, {});
    std::vector<double> values(100'000, job.rank() + 1);
    if (job.rank() == 1) {
      given_up.arrive_and_wait();
      EXPECT_FALSE(communicator.all_reduce(buffer_of(std::span(values))).ok());
    } else {
      communicator.bound(after(Seconds(0.1)), Seconds(60));
      const Outcome outcome = communicator.all_reduce(buffer_of(std::span(values)));
      EXPECT_EQ(outcome.kind(), Outcome::Kind::late) << outcome.message();
      EXPECT_TRUE(communicator.was_late());
      given_up.arrive_and_wait();
    }
    communicator.regroup(2, {0, 1, 2});
    EXPECT_FALSE(communicator.was_late());
    communicator.unbound();
    values.assign(values.size(), job.rank() + 1);
    communicator.all_reduce(buffer_of(std::span(values))).or_throw();
    EXPECT_EQ(values, std::vector<double>(values.size(), 6));
  });
}

INSTANTIATE_TEST_SUITE_P(Links, SubgroupOnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup
