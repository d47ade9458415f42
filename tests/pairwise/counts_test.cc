#include "asup/pairwise/counts.h"

#include <gtest/gtest.h>

namespace asup::pairwise {
namespace {

TEST(Counts, KeepTheLarger) {
  Counts mine(3), theirs(3);
  mine.set_samples(0, 10);
  mine.set_samples(1, 4);
  theirs.set_samples(1, 7);
  theirs.set_samples(2, 5);
  theirs.call_fence(2);
  mine.learn(theirs.bytes());
  EXPECT_EQ(mine.total(), 22u);
  EXPECT_EQ(mine.samples(1), 7u);
  EXPECT_EQ(mine.fence(), 2u);
  mine.set_samples(1, 1);
  mine.call_fence(1);
  mine.learn(Counts(3).bytes());
  EXPECT_EQ(mine.total(), 22u);
  EXPECT_EQ(mine.fence(), 2u);
}

TEST(Counts, IgnoreWhatIsNotTheirs) {
  Counts mine(3), others(4);
  others.set_samples(0, 100);
  mine.learn(others.bytes());
  mine.learn({});
  EXPECT_EQ(mine.total(), 0u);
}

}  // namespace
}  // namespace asup::pairwise
