#include "asup/gossip/progress_vector.h"

#include <gtest/gtest.h>

namespace asup::gossip {
namespace {

TEST(ProgressVector, KeepTheLarger) {
  ProgressVector mine(3), theirs(3);
  mine.set_samples(0, 10);
  mine.set_samples(1, 4);
  theirs.set_samples(1, 7);
  theirs.set_samples(2, 5);
  theirs.call_round(2);
  mine.learn(theirs.bytes());
  EXPECT_EQ(mine.total(), 22u);
  EXPECT_EQ(mine.samples(1), 7u);
  EXPECT_EQ(mine.round(), 2u);
  mine.set_samples(1, 1);
  mine.call_round(1);
  mine.learn(ProgressVector(3).bytes());
  EXPECT_EQ(mine.total(), 22u);
  EXPECT_EQ(mine.round(), 2u);
}

TEST(ProgressVector, IgnoreWhatIsNotTheirs) {
  ProgressVector mine(3), others(4);
  others.set_samples(0, 100);
  mine.learn(others.bytes());
  mine.learn({});
  EXPECT_EQ(mine.total(), 0u);
}

}  // namespace
}  // namespace asup::gossip
