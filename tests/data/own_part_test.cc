#include "asup/data/own_part.h"

#include <gmock/gmock.h>

#include <set>

#include "asup/base/error.h"

namespace asup::data {
namespace {

TEST(OwnPart, AllTogetherAreAllSamplesOnce) {
  for (const std::uint64_t epoch : {0u, 3u}) {
    std::multiset<std::int64_t> all;
    for (int rank = 0; rank < 3; ++rank) {
      OwnPart part(10, 5, rank, 3);
      EXPECT_EQ(part.size(), rank == 0 ? 4u : 3u);
      const auto portion = part.next(epoch * part.size(), 100);
      EXPECT_EQ(portion.epoch, epoch);
      EXPECT_EQ(portion.indices.size(), part.size());
      all.insert(portion.indices.begin(), portion.indices.end());
    }
    EXPECT_EQ(all, (std::multiset<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST(OwnPart, PortionsEndWithTheEpoch) {
  OwnPart part(20, 1, 0, 2);
  const auto whole = part.next(0, 10).indices;
  EXPECT_EQ(part.next(8, 4).indices, std::vector(whole.begin() + 8, whole.end()));
  EXPECT_EQ(part.next(4, 4).indices, std::vector(whole.begin() + 4, whole.begin() + 8));
  EXPECT_EQ(part.next(5, 4).indices, std::vector(whole.begin() + 5, whole.end()))
      << "the last one is not left alone";
  EXPECT_EQ(part.next(10, 4).epoch, 1u);
  EXPECT_NE(part.next(10, 10).indices, whole);
}

TEST(OwnPart, EveryWorkerNeedsASample) { EXPECT_THROW(OwnPart(2, 1, 0, 3), BadInput); }

}  // namespace
}  // namespace asup::data
