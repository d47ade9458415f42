// The choice by rule, where nothing was measured.
#include "asup/collective/tuning/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "asup/base/error.h"
#include "asup/collective/cost/cost.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Choose, TakesSharedMemoryWhereThereIsSome) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
        Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter,
        Collective::all_to_all}) {
    Spec spec = {.collective = collective, .ranks = 4, .count = 1 << 20};
    EXPECT_FALSE(choose(spec).needs_shared);
    spec.shared = true;
    EXPECT_EQ(choose(spec).name, "direct");
  }
}

TEST(Choose, AllReduceGoesBySizeAndReach) {
  Spec spec = {.ranks = 4, .count = 100};
  EXPECT_EQ(choose(spec).name, "recursive_doubling");
  spec.count = 1 << 20;
  EXPECT_EQ(choose(spec).name, "ring");
  spec.stage = true;
  EXPECT_EQ(choose(spec).name, "staged");
  spec.shared = true;
  EXPECT_EQ(choose(spec).name, "direct");
  spec.count = 100;
  EXPECT_EQ(choose(spec).name, "recursive_doubling");
}

TEST(Choose, BroadcastGoesBySize) {
  Spec spec = {.collective = Collective::broadcast, .ranks = 8, .slice = 1000};
  spec.count = 3000;  // the chain saves 2 sends of the whole, and waits for 6 slices more
  EXPECT_EQ(choose(spec).name, "binomial");
  spec.count = 3001;
  EXPECT_EQ(choose(spec).name, "chain");
  spec.ranks = 2;
  EXPECT_EQ(choose(spec).name, "binomial");
  spec.ranks = 1;
  EXPECT_EQ(choose(spec).name, "binomial");
}

TEST(Choose, ReduceGoesBySizeAndReach) {
  Spec spec = {.collective = Collective::reduce, .ranks = 8, .slice = 1000};
  spec.count = 6000;  // as a broadcast, but each of the 6 slices more is received and added up too
  EXPECT_EQ(choose(spec).name, "binomial");
  spec.count = 6001;
  EXPECT_EQ(choose(spec).name, "chain");
  spec.ranks = 2;
  EXPECT_EQ(choose(spec).name, "binomial");
  spec.shared = true;
  EXPECT_EQ(choose(spec).name, "direct");
  spec.count = 1000;
  EXPECT_EQ(choose(spec).name, "binomial");
}

TEST(Choose, GatherAndScatterGoByRanksSizeAndReach) {
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    Spec spec = {.collective = collective, .ranks = 16, .count = 16};
    EXPECT_EQ(choose(spec).name, "linear");
    spec.ranks = 32;
    EXPECT_EQ(choose(spec).name, "binomial");
    spec.count = 32 * 256 + 1;
    EXPECT_EQ(choose(spec).name, "linear");
    spec.shared = true;
    EXPECT_EQ(choose(spec).name, "direct");
    spec.count = 5000;
    EXPECT_EQ(choose(spec).name, "binomial");
  }
}

TEST(Choose, AllToAllGoesByBlockAndReach) {
  Spec spec = {.collective = Collective::all_to_all, .ranks = 8, .count = 8 * 2048};
  EXPECT_EQ(choose(spec).name, "bruck");
  spec.count += 1;
  EXPECT_EQ(choose(spec).name, "pairwise");
  spec.count = 8 * 256 + 1;
  spec.stage = true;
  EXPECT_EQ(choose(spec).name, "pairwise");
  spec.shared = true;
  EXPECT_EQ(choose(spec).name, "direct");
  spec.count = 2000;
  EXPECT_EQ(choose(spec).name, "bruck");
  spec.ranks = 3;
  spec.count = 3;
  EXPECT_EQ(choose(spec).name, "pairwise");
}

// With blocks of any size, the count is that of all ranks together.
TEST(Choose, AllToAllOfUnevenBlocksGoesByTheirMean) {
  Spec spec = {.collective = Collective::all_to_all, .ranks = 4, .count = 16 * 2000};
  spec.counts.assign(16, 2000);
  EXPECT_EQ(choose(spec).name, "bruck");
  spec.count = 16 * 3000;
  spec.counts.assign(16, 3000);
  EXPECT_EQ(choose(spec).name, "pairwise");
}

// Where ranks are and how they are linked, with the usual rates there.
struct Surroundings {
  const char* name;
  bool shared, stage;
  std::string_view link;
  bool apart;  // each rank on a host of its own
};
constexpr Surroundings kSurroundings[] = {{"reachable buffers", true, true, "shm", false},
                                          {"memory", false, true, "shm", false},
                                          {"TCP on one host", false, false, "tcp", false},
                                          {"TCP between hosts", false, false, "tcp", true}};

Picoseconds least_price(const Spec& spec, const Rates& rates, const std::vector<int>& hosts) {
  Picoseconds least = std::numeric_limits<Picoseconds>::max();
  for (const Algorithm& algorithm : algorithms()) {
    if (can_serve(algorithm, spec))
      least = std::min(least, price(algorithm, spec, rates, sizeof(float), hosts));
  }
  return least;
}

TEST(Choose, TheRuleIsNeverFarFromTheCheapest) {
  for (const Collective collective :
       {Collective::reduce, Collective::gather, Collective::scatter, Collective::all_to_all}) {
    for (const Surroundings& around : kSurroundings) {
      for (const int n : {2, 3, 4, 6, 8, 16, 32}) {
        const Rates rates = usual_rates(around.link, n);
        std::vector<int> hosts(n, 0);
        if (around.apart) std::iota(hosts.begin(), hosts.end(), 0);
        for (std::size_t count = 1; count <= 1 << 22; count *= 4) {
          const Spec spec = {.collective = collective,
                             .ranks = n,
                             .count = count,
                             .in_place = false,
                             .shared = around.shared,
                             .stage = around.stage};
          const Algorithm& chosen = choose(spec);
          EXPECT_LE(price(chosen, spec, rates, sizeof(float), hosts),
                    least_price(spec, rates, hosts) * 8 / 5)
              << chosen.name << " for " << testing::describe(spec) << ", " << around.name;
        }
      }
    }
  }
}

TEST(Choose, ANameDecides) {
  Spec spec = {.collective = Collective::all_reduce, .ranks = 4, .count = 10};
  EXPECT_EQ(choose(spec, "ring").name, "ring");
  EXPECT_THAT([&] { choose(spec, "direct"); },
              ThrowsMessage<BadInput>(HasSubstr("needs buffers that all ranks share")));
  EXPECT_THROW(choose(spec, "chain"), BadInput);
  spec.shared = true;
  EXPECT_EQ(choose(spec, "ring").name, "ring");
  EXPECT_EQ(choose(spec, "direct").name, "direct");
}

}  // namespace
}  // namespace asup::collective
