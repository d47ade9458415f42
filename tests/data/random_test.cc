#include "asup/data/random.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace asup::data {
namespace {

// The published outputs for seed 1234567 (Vigna's reference implementation).
TEST(Random, IsSplitMix64) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(Random, BelowIsEven) {
  Random random(1);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(random.below(1), 0u);
}

// Without drawing again, the lowest third would come up half of the time.
TEST(Random, BelowIsEvenForHugeBounds) {
  Random random(2);
  const std::uint64_t bound = 0xC000000000000000u;  // three quarters of 2^64
  int low = 0;
  for (int i = 0; i < 30000; ++i) low += random.below(bound) < bound / 3;
  EXPECT_NEAR(low, 10000, 500);
}

TEST(Random, UniformStaysBelowOne) {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float value = random.uniform();
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(Random, CoordinatesHaveStreamsOfTheirOwn) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch)
      for (std::uint64_t index = 0; index < 10; ++index)
        firsts.insert(Random(seed, epoch, index).next());
  EXPECT_EQ(firsts.size(), 1000u);
  EXPECT_EQ(Random(1, 2, 3).next(), Random(1, 2, 3).next());
}

}  // namespace
}  // namespace asup::data
