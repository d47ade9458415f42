#include "asup/base/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "asup/base/error.h"

namespace asup {
namespace {

TEST(ClockOffset, IsFoundInTheMiddleOfTheShortestWay) {
  const RoundTrip trips[] = {{0, 5'900, 1'000}, {2'000, 7'050, 2'100}, {3'000, 8'900, 3'800}};
  const ClockOffset found = estimate_offset(trips);
  EXPECT_EQ(found.offset, 5'000);
  EXPECT_EQ(found.at, 2'050);
  EXPECT_EQ(found.error, 50);
}

TEST(ClockOffset, NeedsAMessage) { EXPECT_THROW(estimate_offset({}), Error); }

// Delays of 10 µs each way and now and then of milliseconds, on one way alone: what no mean would
// stand.
TEST(ClockOffset, IsWithinItsErrorWhateverTheDelays) {
  std::mt19937_64 random(3);
  std::exponential_distribution<double> some(1 / 4'000.0), rare(1 / 3e6);
  constexpr std::int64_t kOffset = 5'000'000'000'123;
  for (int run = 0; run < 100; ++run) {
    std::vector<RoundTrip> trips;
    std::int64_t now = 1'000'000 * run;
    for (int i = 0; i < 40; ++i) {
      const auto there = 10'000 + static_cast<std::int64_t>(some(random));
      const auto back =
          10'000 + static_cast<std::int64_t>(some(random) + (i % 3 == 0 ? rare(random) : 0));
      trips.push_back({now, now + there + kOffset, now + there + back});
      now += there + back + 1'000;
    }
    const ClockOffset found = estimate_offset(trips);
    EXPECT_LE(std::abs(found.offset - kOffset), found.error);
    EXPECT_LE(std::abs(found.offset - kOffset), 50'000);
    EXPECT_LT(found.error, 20'000);
  }
}

TEST(ClockMap, IsOneClockWithoutEstimates) { EXPECT_EQ(ClockMap()(17), 17); }

TEST(ClockMap, DriftsEvenlyBetweenEstimates) {
  const ClockMap clock({{1'000, 500, 0}, {2'000, 600, 0}, {4'000, 200, 0}});
  EXPECT_EQ(clock(0), 500);
  EXPECT_EQ(clock(1'000), 1'500);
  EXPECT_EQ(clock(1'500), 2'050);
  EXPECT_EQ(clock(2'000), 2'600);
  EXPECT_EQ(clock(3'000), 3'400);
  EXPECT_EQ(clock(9'000), 9'200);
}

// 20 millionths apart, as quartzes are, over a quarter of an hour: at its ends alone it is known.
TEST(ClockMap, FollowsADriftingClock) {
  constexpr double kDrift = 20e-6;
  constexpr std::int64_t kLong = 900'000'000'000;
  const auto theirs = [](std::int64_t ours) {
    return ours + 77'000 + static_cast<std::int64_t>(kDrift * static_cast<double>(ours));
  };
  const ClockMap clock({{0, theirs(0), 0}, {kLong, theirs(kLong) - kLong, 0}});
  for (std::int64_t at = 0; at <= kLong; at += kLong / 7)
    EXPECT_LE(std::abs(clock(at) - theirs(at)), 1'000);
}

}  // namespace
}  // namespace asup
