#include "asup/kernels/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "asup/kernels/isa/table.h"

namespace asup::kernels {
namespace {

using Limits = std::numeric_limits<float>;

TEST(LargestMagnitude, IsFoundOnEveryInstructionSet) {
  for (const Table* table : supported_tables())
    for (const std::size_t count : {1, 15, 16, 17, 2047, 2049, 10007})
      for (std::size_t offset = 0; offset < 4; ++offset) {
        SCOPED_TRACE(::testing::Message() << table->name << ", " << count << " at " << offset);
        // What lies around must not count.
        std::vector<float> data(offset + count + 1, Limits::infinity());
        for (std::size_t i = 0; i < count; ++i) data[offset + i] = i % 2 == 0 ? 1.5f : -1;
        const auto largest = [&] { return table->largest_magnitude(data.data() + offset, count); };
        EXPECT_EQ(largest(), 1.5f);
        for (std::size_t i = count; i > 0; i = i / 3) {
          float& place = data[offset + i - 1];
          const float before = place;
          for (const float value : {-2.5f, Limits::lowest(), -Limits::infinity()}) {
            place = value;
            EXPECT_EQ(largest(), -value);
          }
          for (const float nan : {Limits::quiet_NaN(), -Limits::quiet_NaN()}) {
            place = nan;
            EXPECT_NE(largest(), largest());
          }
          place = before;
        }
      }
}

TEST(LargestMagnitude, OfSmallNumbersAndOfNothing) {
  const float data[] = {Limits::denorm_min(), -2 * Limits::denorm_min(), -0.0f};
  EXPECT_EQ(largest_magnitude(data, 3), 2 * Limits::denorm_min());
  EXPECT_EQ(largest_magnitude(nullptr, 0), 0);
}

TEST(CountNotFinite, CountsInfinitiesAndNansOnEveryInstructionSet) {
  const float bad[] = {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                       Limits::signaling_NaN()};
  for (const Table* table : supported_tables())
    for (const std::size_t count : {1, 15, 16, 17, 2047, 2049, 10007})
      for (std::size_t offset = 0; offset < 4; ++offset) {
        SCOPED_TRACE(::testing::Message() << table->name << ", " << count << " at " << offset);
        // What lies around must not count.
        std::vector<float> data(offset + count + 1, Limits::infinity());
        for (std::size_t i = 0; i < count; ++i) data[offset + i] = i % 2 == 0 ? Limits::max() : 0;
        EXPECT_EQ(table->count_not_finite(data.data() + offset, count), 0u);
        std::size_t placed = 0;
        for (std::size_t i = count; i > 0; i = i / 3) data[offset + i - 1] = bad[placed++ % 4];
        EXPECT_EQ(table->count_not_finite(data.data() + offset, count), placed);
      }
}

TEST(CountNotFinite, ExtremesAreFinite) {
  const float data[] = {Limits::max(),        Limits::lowest(),      Limits::min(),
                        Limits::denorm_min(), -Limits::denorm_min(), -0.0f};
  EXPECT_EQ(count_not_finite(data, 6), 0u);
}

TEST(CountNotFinite, OfNothingIsNone) { EXPECT_EQ(count_not_finite(nullptr, 0), 0u); }

TEST(CountNotFinite, AllCount) {
  EXPECT_EQ(count_not_finite(std::vector<float>(100003, Limits::quiet_NaN()).data(), 100003),
            100003u);
}

}  // namespace
}  // namespace asup::kernels
