#include "asup/tensors/pages.h"

#include <gtest/gtest.h>

namespace asup {
namespace {

TEST(FreeRanges, WhatIsGivenBackIsTakenAgain) {
  FreeRanges ranges;
  EXPECT_EQ(ranges.take(10), 0u);
  EXPECT_EQ(ranges.take(20), 10u);
  EXPECT_EQ(ranges.take(5), 30u);
  ranges.give_back(10, 20);
  EXPECT_EQ(ranges.take(21), 35u);  // longer than what is free
  EXPECT_EQ(ranges.take(8), 10u);
  EXPECT_EQ(ranges.take(12), 18u);
  EXPECT_EQ(ranges.end(), 56u);
}

TEST(FreeRanges, NeighboursBecomeOne) {
  FreeRanges ranges;
  for (std::size_t i = 0; i < 4; ++i) ranges.take(10);
  ranges.give_back(0, 10);
  ranges.give_back(20, 10);
  ranges.give_back(10, 10);
  EXPECT_EQ(ranges.take(30), 0u);
}

TEST(FreeRanges, WhatIsFreeAtTheEndIsNothing) {
  FreeRanges ranges;
  ranges.take(10);
  ranges.take(10);
  ranges.take(10);
  ranges.give_back(10, 10);
  EXPECT_EQ(ranges.end(), 30u);
  ranges.give_back(20, 10);
  EXPECT_EQ(ranges.end(), 10u);
  ranges.give_back(0, 10);
  EXPECT_EQ(ranges.end(), 0u);
}

// Pieces of other sizes again and again take no more of the disk than what is in use.
TEST(FilePages, PlacesOfAFileAreUsedAgain) {
  FilePages pages("/var/tmp");
  void* const kept = pages.map(pages.size());
  for (std::size_t i = 1; i <= 20; ++i) {
    void* const data = pages.map(i * pages.size());
    ASSERT_NE(data, nullptr);
    static_cast<char*>(data)[0] = 1;
    pages.unmap(data, i * pages.size());
    EXPECT_EQ(pages.end(), pages.size());
  }
  pages.unmap(kept, pages.size());
  EXPECT_EQ(pages.end(), 0u);
}

}  // namespace
}  // namespace asup
