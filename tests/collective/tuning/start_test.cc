#include "asup/collective/tuning/start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/tuning/agree.h"
#include "asup/collective/tuning/chooser.h"
#include "asup/collective/tuning/measure.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace asup::collective::tuning {
namespace {

using asup::testing::run_ranks;
using asup::testing::TemporaryFolder;
using net::LinkKind;

// What each rank's `found` gave, by rank.
template <typename Value, typename Find>
std::vector<Value> on_all(int ranks, LinkKind links, const Find& find) {
  std::vector<Value> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, links, [&](Job& job) {
    auto communicator = make_communicator(job);
    all[static_cast<std::size_t>(job.rank())] = find(job, *communicator);
  });
  return all;
}

TEST(Agree, GivesAllRankZerosRates) {
  const auto all = on_all<Rates>(3, LinkKind::inproc, [](Job& job, Communicator& communicator) {
    return agree(communicator, usual_rates("shm", job.rank() + 1));
  });
  for (const Rates& rates : all) EXPECT_EQ(hash_of(rates), hash_of(usual_rates("shm", 1)));
}

class Measured : public ::testing::TestWithParam<LinkKind> {};

TEST_P(Measured, RatesAreTheSameOnAllRanksAndCanBe) {
  const auto all = on_all<Rates>(3, GetParam(), [](Job& job, Communicator& communicator) {
    return measure(communicator, surroundings_of(job));
  });
  for (const Rates& rates : all) {
    EXPECT_EQ(hash_of(rates), hash_of(all[0]));
    EXPECT_NO_THROW(require_valid(rates));
  }
  const Rates& rates = all[0];
  const Rates usual = usual_rates(asup::testing::name_of(GetParam()), 1);
  EXPECT_GT(rates.near.latency, 0);
  EXPECT_GT(rates.near.send_byte, 0);
  EXPECT_GT(rates.reduce.memory, 0);
  EXPECT_NE(rates.near, usual.near);
  EXPECT_EQ(rates.far, usual.far);  // there is no other host
}

INSTANTIATE_TEST_SUITE_P(Links, Measured,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

TEST(Surroundings, OfAJobAreItsHostsAndLinks) {
  for (const LinkKind links : {LinkKind::shm, LinkKind::tcp}) {
    run_ranks(2, links, [&](Job& job) {
      const Surroundings around = surroundings_of(job);
      EXPECT_EQ(around.hosts, (std::vector{0, 0}));
      EXPECT_EQ(around.near_link, asup::testing::name_of(links));
      EXPECT_EQ(around.most_ranks_on_a_host(), 2);
      EXPECT_EQ(around.all_by_memory(), links == LinkKind::shm);
    });
  }
}

TEST(Start, MeasuresOnceAndRemembers) {
  const TemporaryFolder folder;
  const RatesCache cache(folder.path());
  const auto start = [&](Job& job, Communicator& communicator) {
    return rates_at_start(communicator, surroundings_of(job), cache);
  };
  const auto first = on_all<StartRates>(2, LinkKind::tcp, start);
  const auto again = on_all<StartRates>(2, LinkKind::tcp, start);
  for (const int rank : {0, 1}) {
    const auto r = static_cast<std::size_t>(rank);
    EXPECT_EQ(first[r].origin, Origin::measured);
    EXPECT_EQ(again[r].origin, Origin::remembered);
    EXPECT_EQ(hash_of(again[r].rates), hash_of(first[0].rates));
  }
}

TEST(Start, TakesTheUsualRatesForFewRanksOnOneHost) {
  const TemporaryFolder folder;
  const RatesCache cache(folder.path());
  const auto all = on_all<StartRates>(2, LinkKind::inproc, [&](Job& job, Communicator& c) {
    return rates_at_start(c, surroundings_of(job), cache);
  });
  EXPECT_EQ(all[0].origin, Origin::usual);
  EXPECT_EQ(all[1].rates, all[0].rates);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto alone = on_all<StartRates>(1, LinkKind::inproc, [&](Job& job, Communicator& c) {
    return rates_at_start(c, surroundings_of(job), cache);
  });
  EXPECT_EQ(alone[0].origin, Origin::usual);
}

// A communicator with rates runs what the chooser says, and its parts after a split do too.
TEST(Start, CommunicatorsChooseByPrice) {
  Rates slow_bytes;
  slow_bytes.near = {0, 0, 1e-9, 1e-9, 0};
  slow_bytes.cores = 4;
  std::mutex mutex;
  std::vector<Plan> run;  // by rank 0
  run_ranks(4, LinkKind::inproc, [&](Job& job) {
    CommunicatorOptions options;
    options.rates = slow_bytes;
    if (job.rank() == 0)
      options.trace = [&](const TraceEvent& event) {
        const std::lock_guard lock(mutex);
        if (event.kind == TraceEvent::Kind::begin && event.spec->count == 1 << 18)
          run.push_back(*event.plan);
      };
    auto communicator = make_communicator(job, options);
    std::vector<float> data(1 << 18, static_cast<float>(job.rank()));
    communicator->broadcast(buffer_of(std::span(data)), 3).or_throw();
    EXPECT_EQ(data[1], 3);
    auto half = communicator->split(job.rank() / 2, 0);
    half->all_reduce(buffer_of(std::span(data))).or_throw();
    EXPECT_EQ(data[1], 6);
  });
  Chooser chooser(slow_bytes, {0, 0, 0, 0});
  const Spec spec{.collective = Collective::broadcast, .ranks = 4, .count = 1 << 18, .root = 3};
  ASSERT_EQ(run.size(), 2u);
  EXPECT_EQ(run[0].lanes, chooser.choose(spec, 4).plan(0, spec).lanes);
}

}  // namespace
}  // namespace asup::collective::tuning
