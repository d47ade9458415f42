#include "asup/collective/tuning/chooser.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/collective/tuning/choose.h"

namespace asup::collective::tuning {
namespace {

constexpr std::size_t kFloat = 4;

Spec all_reduce(int ranks, std::size_t bytes, bool shared) {
  return {.collective = Collective::all_reduce,
          .ranks = ranks,
          .count = bytes / kFloat,
          .shared = shared};
}

TEST(Chooser, OrdersByPriceAndKeepsToTheRuleUntilAnotherIsClearlyCheaper) {
  Chooser chooser(usual_rates("shm", 8), std::vector<int>(8, 0));
  for (const std::size_t bytes : {0u, 4u, 1u << 10, 1u << 20, 100u << 20}) {
    for (const bool shared : {false, true}) {
      const Spec spec = all_reduce(8, bytes, shared);
      const std::vector<Priced>& order = chooser.order(spec, kFloat);
      ASSERT_FALSE(order.empty());
      for (std::size_t i = 1; i < order.size(); ++i) EXPECT_LE(order[i - 1].price, order[i].price);
      for (const Priced& priced : order) EXPECT_TRUE(shared || !priced.algorithm->needs_shared);
      const Algorithm& pick = chooser.choose(spec, kFloat);
      const auto priced = std::find_if(order.begin(), order.end(),
                                       [&](const Priced& p) { return p.algorithm == &pick; });
      ASSERT_NE(priced, order.end());
      EXPECT_LE(priced->price, order.front().price / 3 * 4 + 4);
      EXPECT_TRUE(&pick == &choose(spec) || &pick == order.front().algorithm);
    }
  }
}

TEST(Chooser, FollowsTheRates) {
  // Where only latency counts, the broadcast with the fewest messages in a row; where only bytes
  // count, the one that sends them the fewest times.
  const Spec spec{.collective = Collective::broadcast, .ranks = 8, .count = 16 << 20};
  Rates slow_start, slow_bytes;
  slow_start.near = {1e-3, 0, 0, 0, 0};
  slow_bytes.near = {0, 0, 1e-9, 1e-9, 0};
  slow_start.cores = slow_bytes.cores = 8;
  const std::vector<int> hosts(8, 0);
  EXPECT_EQ(Chooser(slow_start, hosts).choose(spec, kFloat).name, "binomial");
  EXPECT_EQ(Chooser(slow_bytes, hosts).choose(spec, kFloat).name, "chain");
}

// The choice depends on nothing but what all ranks share: not on which calls came before, nor on
// exact counts of the class, blocks or root.
TEST(Chooser, IsTheSameInAnyOrderOfCalls) {
  const Rates rates = usual_rates("tcp", 4);
  const std::vector<int> hosts{0, 0, 0, 1, 1, 1};
  std::vector<Spec> specs;
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
        Collective::broadcast, Collective::barrier})
    for (std::size_t count = 1; count < 1 << 24; count *= 7)
      specs.push_back({.collective = collective,
                       .ranks = 6,
                       .count = collective == Collective::barrier ? 0 : count,
                       .root = static_cast<int>(count % 6)});
  Chooser forward(rates, hosts), backward(rates, hosts);
  std::vector<const Algorithm*> there, back;
  for (auto spec = specs.begin(); spec != specs.end(); ++spec)
    there.push_back(&forward.choose(*spec, kFloat));
  for (auto spec = specs.rbegin(); spec != specs.rend(); ++spec)
    back.insert(back.begin(), &backward.choose(*spec, kFloat));
  EXPECT_EQ(there, back);
}

// Calls that differ only in what ranks can reach are told apart, in either order.
TEST(Chooser, OffersOnlyWhatCanServe) {
  Chooser chooser(usual_rates("shm", 2), {0, 0});
  for (const bool stage : {true, false, true}) {
    for (const bool shared : {false, true}) {
      Spec spec = all_reduce(2, 1 << 20, shared);
      spec.stage = stage;
      std::size_t can = 0;
      for (const Algorithm& algorithm : algorithms()) can += can_serve(algorithm, spec);
      EXPECT_EQ(chooser.order(spec, kFloat).size(), can);
    }
  }
}

// Whichever of two calls of a size comes first.
TEST(Chooser, KnowsCallsInACodeFromOthers) {
  Spec coded = all_reduce(2, 1 << 20, false);
  coded.coded = true;
  for (const bool coded_first : {true, false}) {
    Chooser chooser(usual_rates("shm", 2), {0, 0});
    for (const bool in_code : {coded_first, !coded_first}) {
      const Spec spec = in_code ? coded : all_reduce(2, 1 << 20, false);
      EXPECT_EQ(chooser.choose(spec, kFloat).name == "owners", in_code);
    }
  }
}

TEST(Chooser, DoesAsItIsTold) {
  Chooser chooser(usual_rates("shm", 2), {0, 0});
  EXPECT_EQ(chooser.choose(all_reduce(2, 4, true), kFloat, "ring").name, "ring");
  EXPECT_THROW(chooser.choose(all_reduce(2, 4, true), kFloat, "star"), BadInput);
  EXPECT_THROW(chooser.choose(all_reduce(2, 4, false), kFloat, "direct"), BadInput);
}

TEST(Chooser, KnowsCallsOfAnySize) {
  Chooser chooser(usual_rates("shm", 2), {0, 0});
  const std::size_t huge = std::size_t{1} << 62;
  EXPECT_NO_THROW(
      chooser.choose({.collective = Collective::all_reduce, .ranks = 2, .count = huge}, 8));
  EXPECT_NO_THROW(chooser.choose({.collective = Collective::send, .ranks = 2, .count = huge}, 8));
  EXPECT_NO_THROW(
      chooser.choose({.collective = Collective::all_reduce, .ranks = 1, .count = 5}, 8));
}

}  // namespace
}  // namespace asup::collective::tuning
