#include "asup/collective/cost/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kFloat = 4;

// Round numbers, so that prices can be reckoned by hand: in nanoseconds, 100 of latency, 10 a
// message, 1 a byte sent, 2 a byte received, 3 a byte copied, 6 a byte added up.
Rates round_rates() {
  Rates rates;
  rates.near = {100e-9, 10e-9, 1e-9, 2e-9, 0};
  rates.far = {1000e-9, 10e-9, 1e-9, 2e-9, 4e-9};
  rates.copy = {3e-9, 3e-9};
  rates.reduce = {6e-9, 6e-9};
  rates.change = 50e-9;
  rates.cores = 64;
  return rates;
}

Picoseconds nanoseconds(Picoseconds count) { return count * 1000; }

Spec spec_of(Collective collective, int ranks, std::size_t bytes) {
  return {.collective = collective, .ranks = ranks, .count = bytes / kFloat};
}

Plan one_lane(Lane lane) { return {.lanes = {std::move(lane)}, .scratch = 0}; }

// Rank 0 sends 25 elements, 100 bytes, to rank 1.
std::vector<Plan> one_message() {
  return {one_lane({{send(1, in(0, 25))}}), one_lane({{recv(0, out(0, 25))}})};
}

TEST(Cost, OfAMessageIsBothProcessorsAndTheWay) {
  const Spec spec = spec_of(Collective::broadcast, 2, 100);
  // The first byte arrives at 10 + 100; the receiver needs 10 + 200 for all.
  EXPECT_EQ(price(spec, one_message(), round_rates(), kFloat), nanoseconds(320));
}

TEST(Cost, BetweenHostsTheNetworkSetsThePace) {
  const Spec spec = spec_of(Collective::broadcast, 2, 100);
  // First byte at 10 + 1000, last 400 later, and 10 to take it.
  EXPECT_EQ(price(spec, one_message(), round_rates(), kFloat, std::vector{7, 3}),
            nanoseconds(1420));
}

TEST(Cost, RanksOfAHostShareItsNetwork) {
  const Spec spec = spec_of(Collective::broadcast, 4, 100);
  const std::vector<Plan> two = {one_lane({{send(2, in(0, 25))}}), one_lane({{send(3, in(0, 25))}}),
                                 one_lane({{recv(0, out(0, 25))}}),
                                 one_lane({{recv(1, out(0, 25))}})};
  const Rates rates = round_rates();
  EXPECT_EQ(price(spec, two, rates, kFloat, std::vector{0, 0, 1, 1}), nanoseconds(1820));
  EXPECT_EQ(price(spec, two, rates, kFloat, std::vector{0, 1, 2, 3}), nanoseconds(1420));
}

TEST(Cost, ARankDoesOneThingAfterTheOther) {
  const Spec spec = spec_of(Collective::all_reduce, 2, 100);
  const auto exchange = [](int peer) {
    return one_lane({{send(peer, in(0, 25)), recv_reduce(peer, in(0, 25), out(0, 25), true)}});
  };
  // Both send until 110; adding up, which saves the copy out of the link, would take until
  // 110 + 10 + 600 - 100, but 2 ns a byte received are less than the 3 of a copy: 6 ns a byte.
  EXPECT_EQ(price(spec, {exchange(1), exchange(0)}, round_rates(), kFloat),
            nanoseconds(110 + 10 + 600));
}

TEST(Cost, MemoryStepsTakeTheirBytes) {
  const Spec spec{.collective = Collective::all_reduce, .ranks = 2, .count = 25, .shared = true};
  const std::vector<Plan> plans = {
      one_lane({{copy(in(0, 25), out(0, 25))}, {peer_reduce(in(0, 25), out(0, 25))}}), {}};
  EXPECT_EQ(price(spec, plans, round_rates(), kFloat), nanoseconds(300 + 600));
  const Spec apart = spec_of(Collective::all_reduce, 2, 100);
  const std::vector<Plan> parts = {
      one_lane({{reduce_parts(scratch(0, 25), in(0, 25), out(0, 25))}}), {}};
  EXPECT_EQ(price(apart, parts, round_rates(), kFloat), nanoseconds(600));
  // Tile by tile, the second copy finds what the first one wrote in the cache.
  const std::vector<Plan> tiled = {
      one_lane({{copy(in(0, 25), out(0, 25)), copy(out(0, 25), scratch(0, 25))}}), {}};
  EXPECT_EQ(price(spec, tiled, round_rates(), kFloat), nanoseconds(300 + 150));
}

TEST(Cost, RanksWaitForACore) {
  const Spec spec = spec_of(Collective::all_reduce, 4, 100);
  const std::vector<Plan> plans(4, one_lane({{copy(in(0, 25), out(0, 25))}}));
  Rates rates = round_rates();
  EXPECT_EQ(price(spec, plans, rates, kFloat), nanoseconds(300));
  rates.cores = 2;
  EXPECT_EQ(price(spec, plans, rates, kFloat), nanoseconds(300 + 50 + 300));
  EXPECT_EQ(price(spec, plans, rates, kFloat, std::vector{0, 0, 1, 1}), nanoseconds(300));
}

TEST(Cost, LanesOverlapOnTheNetwork) {
  const Spec spec = spec_of(Collective::broadcast, 3, 200);
  const auto hop = [](AreaRange part) -> Lane { return {{recv(0, part)}, {send(2, part)}}; };
  const AreaRange left = out(0, 25), right = out(25, 50), whole = out(0, 50);
  const std::vector<Plan> one = {one_lane({{send(1, whole)}}), one_lane(hop(whole)),
                                 one_lane({{recv(1, whole)}})};
  const std::vector<Plan> two = {{.lanes = {{{send(1, left)}}, {{send(1, right)}}}},
                                 {.lanes = {hop(left), hop(right)}},
                                 {.lanes = {{{recv(1, left)}}, {{recv(1, right)}}}}};
  const std::vector<int> apart{0, 1, 2};
  EXPECT_LT(price(spec, two, round_rates(), kFloat, apart),
            price(spec, one, round_rates(), kFloat, apart));
}

TEST(Cost, OfPlansThatDoNotMeetIsRefused) {
  const Spec spec = spec_of(Collective::broadcast, 2, 100);
  std::vector<Plan> plans = one_message();
  plans[1] = {};
  EXPECT_THAT([&] { price(spec, plans, round_rates(), kFloat); },
              ::testing::ThrowsMessage<Error>(HasSubstr("rank 1 never receives it")));
}

// Every algorithm there is, with what typical machines reach, where each rank has a core. Where
// ranks wait for cores, a little more work may happen to find one sooner.
TEST(Cost, GrowsWithTheBytes) {
  const Rates rates = usual_rates("shm", 8);
  for (const Algorithm& algorithm : algorithms()) {
    if (is_point_to_point(algorithm.collective)) continue;
    for (const int n : {1, 2, 3, 6, 8}) {
      Picoseconds before = 0;
      for (const std::size_t bytes : {0u, 1u << 10, 1u << 16, 1u << 20, 1u << 24, 1u << 27}) {
        Spec spec = spec_of(algorithm.collective, n, bytes);
        spec.shared = algorithm.needs_shared;
        spec.stage = algorithm.needs_stage;
        const Picoseconds now = price(algorithm, spec, rates, kFloat);
        EXPECT_GE(now, before) << algorithm.name << ", " << n << " ranks, " << bytes << " bytes";
        EXPECT_EQ(now, price(algorithm, spec, rates, kFloat));
        before = now;
      }
    }
  }
}

TEST(Cost, OfTheRingIsThatOfItsFormulaWhereOnlyTheNetworkCounts) {
  Rates rates;
  rates.far = {20e-6, 0, 0, 0, 8e-9};  // 1 Gbit/s
  const int n = 4;
  const std::vector<int> apart{0, 1, 2, 3};
  const double bytes = 64 << 20;
  const Spec spec = spec_of(Collective::all_reduce, n, 64 << 20);
  const double formula = 2.0 * (n - 1) / n * bytes * 8e-9;
  const double priced =
      seconds_of(price(find_algorithm(Collective::all_reduce, "ring"), spec, rates, kFloat, apart));
  EXPECT_NEAR(priced / formula, 1, 0.01);
}

// Where there is an algorithm of few rounds, it beats the ring for few bytes and loses for many.
TEST(Cost, FewRoundsWinForFewBytes) {
  const Algorithm* doubling = nullptr;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == Collective::all_reduce && algorithm.name == "recursive_doubling")
      doubling = &algorithm;
  if (!doubling) return;
  const Algorithm& ring = find_algorithm(Collective::all_reduce, "ring");
  const Rates rates = usual_rates("tcp", 8);
  const Spec few = spec_of(Collective::all_reduce, 8, 1 << 10);
  const Spec many = spec_of(Collective::all_reduce, 8, 100 << 20);
  EXPECT_LT(price(*doubling, few, rates, kFloat), price(ring, few, rates, kFloat));
  EXPECT_GT(price(*doubling, many, rates, kFloat), price(ring, many, rates, kFloat));
}

// What is carried on from few ranks agrees with what all of them give.
TEST(Cost, OfManyRanksIsCarriedOnFromFew) {
  const Algorithm& ring = find_algorithm(Collective::all_reduce, "ring");
  const std::size_t bytes = 256 << 20;
  const Spec many = spec_of(Collective::all_reduce, 96, bytes);
  Rates rates;
  Picoseconds carried = 0;
  for (const int cores : {96, 48}) {
    rates = usual_rates("tcp", cores);
    carried = price(ring, many, rates, kFloat);
    const Picoseconds whole = price(many, testing::plans_of(ring, many), rates, kFloat);
    EXPECT_NEAR(static_cast<double>(carried) / static_cast<double>(whole), 1, 0.1) << cores;
  }
  // A thousand ranks take no longer to price than a hundred.
  EXPECT_GT(price(ring, spec_of(Collective::all_reduce, 1000, bytes), rates, kFloat), carried);
}

TEST(Rates, HashTellsAnyNumberApart) {
  Rates rates = usual_rates("shm", 2);
  const std::uint64_t hash = hash_of(rates);
  for (std::size_t i = 0; i < fields_of(rates).size(); ++i) {
    Rates other = usual_rates("shm", 2);
    *fields_of(other)[i].value += 1e-12;
    EXPECT_NE(hash_of(other), hash) << fields_of(other)[i].name;
  }
}

TEST(Rates, ThatCannotBeAreRefused) {
  Rates rates = usual_rates("shm", 2);
  EXPECT_NO_THROW(require_valid(rates));
  rates.far.wire_byte = -1;
  EXPECT_THAT([&] { require_valid(rates); },
              ::testing::ThrowsMessage<BadInput>("rates: far_wire_byte cannot be -1"));
}

}  // namespace
}  // namespace asup::collective
