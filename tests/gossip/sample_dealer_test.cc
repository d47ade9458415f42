#include "asup/gossip/sample_dealer.h"

#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <thread>

#include "tests/gossip/group.h"
#include "tests/support/ranks.h"

namespace asup::gossip::testing {
namespace {

using net::LinkKind;

constexpr Seconds kTimeout{120};

class DealerOnEveryLink : public ::testing::TestWithParam<LinkKind> {};

// However many each takes, every sample has one worker.
TEST_P(DealerOnEveryLink, EverySampleIsDealtOnce) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kSamples = 3000;
  std::vector<int> times(kSamples);
  std::mutex mutex;
  std::barrier all(kRanks);
  asup::testing::run_ranks(kRanks, GetParam(), [&](Job& job) {
    SampleDealer dealer(net::workers_of(job));
    dealer.begin(1, DealtSamples());
    all.arrive_and_wait();
    for (std::uint64_t limit = 1000; limit <= kSamples; limit += 1000) {
      while (const auto run =
                 dealer.ask(static_cast<std::uint64_t>(7 + job.rank()), limit, kTimeout)) {
        {
          const std::lock_guard lock(mutex);
          for (std::uint64_t i = run->begin; i < run->end; ++i) ++times[i];
        }
        if (run->begin % 2 == 0) dealer.ask_ahead(5, 3, limit);
        dealer.finish(run->size());
      }
      all.arrive_and_wait();
      EXPECT_EQ(dealer.dealt(), job.rank() == 1 ? limit : 0);
      all.arrive_and_wait();
    }
  });
  EXPECT_EQ(times, std::vector<int>(kSamples, 1));
}

TEST_P(DealerOnEveryLink, WhatAWorkerLeftUnfinishedComesBack) {
  std::barrier all(3);
  asup::testing::run_ranks(3, GetParam(), [&](Job& job) {
    std::optional<SampleDealer> dealer(std::in_place, net::workers_of(job));
    dealer->begin(0, DealtSamples());
    all.arrive_and_wait();
    if (job.rank() == 2) {
      EXPECT_EQ(dealer->ask(10, 30, kTimeout), (SampleRun{0, 10}));
      dealer->finish(10);
      EXPECT_EQ(dealer->ask(10, 30, kTimeout), (SampleRun{10, 20}));
      return all.arrive_and_drop();  // and is gone
    }
    if (job.rank() == 0) {
      wait_until([&] { return dealer->finished_by_worker()[2] == 10; }, "its first run");
      wait_until([&] { return dealer->dealt() == 10; }, "its second one");
      EXPECT_EQ(dealer->ask(15, 30, kTimeout), (SampleRun{10, 20}));
    }
    all.arrive_and_wait();
    if (job.rank() == 1) {
      EXPECT_EQ(dealer->ask(15, 30, kTimeout), (SampleRun{20, 30}));
    }
    all.arrive_and_wait();
  });
}

// Asked for while there is somebody to answer, and taken when there is nobody.
TEST_P(DealerOnEveryLink, WhatWasDealtAheadIsThereWithoutAnAnswer) {
  std::barrier all(2);
  asup::testing::run_ranks(2, GetParam(), [&](Job& job) {
    std::optional<SampleDealer> dealer(std::in_place, net::workers_of(job));
    dealer->begin(0, DealtSamples());
    all.arrive_and_wait();
    if (job.rank() == 1) {
      EXPECT_EQ(dealer->take_ahead(), std::nullopt);
      EXPECT_EQ(dealer->await_ahead(kTimeout), std::nullopt);  // nothing was asked for
      EXPECT_EQ(dealer->ask(10, 1000, kTimeout), (SampleRun{0, 10}));
      dealer->finish(10);
      dealer->ask_ahead(10, 3, 1000);
      dealer->ask_ahead(10, 3, 1000);  // the answer is still to come, or to be taken
      EXPECT_EQ(dealer->await_ahead(kTimeout), (SampleRun{10, 40}));
      dealer->ask_ahead(10, 1, 1000);
      EXPECT_EQ(dealer->ask(10, 1000, kTimeout), (SampleRun{40, 50}));
      dealer->ask_ahead(10, 3, 50);  // there are none: then it asks again
      EXPECT_EQ(dealer->ask(10, 1000, kTimeout), (SampleRun{50, 60}));
    }
    all.arrive_and_wait();
  });
}

TEST_P(DealerOnEveryLink, NobodyDealsWhereTheDealerIsGone) {
  asup::testing::run_ranks(2, GetParam(), [&](Job& job) {
    SampleDealer dealer(net::workers_of(job));
    dealer.begin(0, DealtSamples());
    if (job.rank() == 0) return;
    while (dealer.ask(1, 1'000'000'000, kTimeout)) std::this_thread::yield();
    dealer.begin(1, DealtSamples(5));
    EXPECT_EQ(dealer.ask(10, 30, kTimeout), (SampleRun{5, 15}));
  });
}

INSTANTIATE_TEST_SUITE_P(Links, DealerOnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::gossip::testing
