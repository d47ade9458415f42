#include "asup/pairwise/grapevine.h"

#include <gtest/gtest.h>

#include <barrier>

#include "tests/pairwise/circle.h"
#include "tests/support/ranks.h"

namespace asup::pairwise::testing {
namespace {

using net::LinkKind;

class GrapevineOnEveryLink : public ::testing::TestWithParam<LinkKind> {};

TEST_P(GrapevineOnEveryLink, CountsAndCallsReachAll) {
  constexpr int kRanks = 5;
  std::barrier all(kRanks);
  std::atomic<int> know = 0;
  asup::testing::run_ranks(kRanks, GetParam(), [&](Job& job) {
    Grapevine grapevine(circle_of(job));
    const auto own = static_cast<std::uint64_t>(100 + job.rank());
    wait_until([&] { return grapevine.tell(own).samples == 510; }, "the total");
    ++know;
    wait_until([&] { return grapevine.tell(own), know == kRanks; }, "that all know");
    EXPECT_EQ(grapevine.counts().samples(3), 103u);
    EXPECT_EQ(grapevine.tell(own).fence, 0u);
    all.arrive_and_wait();
    if (job.rank() == 2) grapevine.call_fence(7);
    wait_until([&] { return grapevine.tell(own).fence == 7; }, "the call");
    all.arrive_and_wait();
  });
}

// One worker has left: what it has done still counts.
TEST_P(GrapevineOnEveryLink, WhoIsGoneIsRemembered) {
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    Grapevine grapevine(circle_of(job));
    if (job.rank() == 2) return void(grapevine.call_fence(grapevine.tell(40).fence + 1));
    wait_until([&] { return grapevine.tell(1).samples == 42; }, "the total");
    wait_until([&] { return grapevine.tell(1).fence >= 1; }, "its call");
    grapevine.call_fence(2);
    wait_until([&] { return grapevine.tell(1).fence == 2; }, "the call");
  });
}

TEST(Grapevine, OneWorkerTellsNobody) {
  asup::testing::run_ranks(1, LinkKind::inproc, [&](Job& job) {
    Grapevine grapevine(circle_of(job));
    EXPECT_EQ(grapevine.tell(5).samples, 5u);
    grapevine.call_fence(1);
    EXPECT_EQ(grapevine.tell(6).fence, 1u);
  });
}

INSTANTIATE_TEST_SUITE_P(Links, GrapevineOnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::pairwise::testing
