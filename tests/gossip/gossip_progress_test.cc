#include "asup/gossip/gossip_progress.h"

#include <gtest/gtest.h>

#include <barrier>

#include "tests/gossip/group.h"
#include "tests/support/ranks.h"

namespace asup::gossip::testing {
namespace {

using net::LinkKind;

class ProgressOnEveryLink : public ::testing::TestWithParam<LinkKind> {};

TEST_P(ProgressOnEveryLink, CountsAndCallsReachAll) {
  constexpr int kRanks = 5;
  std::barrier all(kRanks);
  std::atomic<int> know = 0;
  asup::testing::run_ranks(kRanks, GetParam(), [&](Job& job) {
    GossipProgress progress(net::workers_of(job));
    const auto own = static_cast<std::uint64_t>(100 + job.rank());
    wait_until([&] { return progress.tell(own).samples == 510; }, "the total");
    ++know;
    wait_until([&] { return progress.tell(own), know == kRanks; }, "that all know");
    EXPECT_EQ(progress.counts().samples(3), 103u);
    EXPECT_EQ(progress.tell(own).round, 0u);
    all.arrive_and_wait();
    if (job.rank() == 2) progress.call_round(7);
    wait_until([&] { return progress.tell(own).round == 7; }, "the call");
    all.arrive_and_wait();
  });
}

// One worker has left: what it has done still counts.
TEST_P(ProgressOnEveryLink, WhoIsGoneIsRemembered) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    GossipProgress progress(net::workers_of(job));
    if (job.rank() == 2) return void(progress.call_round(progress.tell(40).round + 1));
    wait_until([&] { return progress.tell(1).samples == 42; }, "the total");
    wait_until([&] { return progress.tell(1).round >= 1; }, "its call");
    progress.call_round(2);
    wait_until([&] { return progress.tell(1).round == 2; }, "the call");
  });
}

TEST(GossipProgress, OneWorkerTellsNobody) {
  asup::testing::run_ranks(1, LinkKind::inproc, [&](Job& job) {
    GossipProgress progress(net::workers_of(job));
    EXPECT_EQ(progress.tell(5).samples, 5u);
    progress.call_round(1);
    EXPECT_EQ(progress.tell(6).round, 1u);
  });
}

INSTANTIATE_TEST_SUITE_P(Links, ProgressOnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::gossip::testing
