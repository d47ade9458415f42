#include "asup/bench/faults/log.h"

#include <gtest/gtest.h>

#include <cmath>

namespace asup::bench {
namespace {

TEST(FaultsLog, EachStepIsInOneRow) {
  EXPECT_EQ(count_lost({1, 2, 3, 4}, 4, 0), 0);
  EXPECT_EQ(count_lost({1, 2, 3}, 4, 3), 1);
  EXPECT_EQ(count_lost({}, 4, 3), 4);
  EXPECT_EQ(count_lost({1, 2, 2, 3, 4}, 4, 3), 1);
  EXPECT_EQ(count_lost({1, 2, 3, 1, 2, 3, 4}, 4, 3), 3);
}

TEST(FaultsLog, SomeMayBeInTheRowOfTheNext) {
  EXPECT_EQ(count_lost({1, 5, 6}, 6, 3), 0);
  EXPECT_EQ(count_lost({1, 6}, 6, 3), 1);
  EXPECT_EQ(count_lost({2, 4, 6}, 6, 2), 1);
}

TEST(FaultsLog, LossesOfAsManySamplesAreThoseOfAJobWithoutFaults) {
  const LoggedLosses was{{1, {2.0, 24}}, {2, {1.5, 24}}, {3, {1.2, 24}}};
  EXPECT_FALSE(differ(was, was, 0));
  EXPECT_FALSE(differ({{1, {2.0, 24}}, {2, {1.9, 18}}, {3, {1.2001, 24}}}, was, 1));
  EXPECT_TRUE(differ({{1, {2.0, 24}}, {2, {1.9, 18}}, {3, {1.2001, 24}}}, was, 0));
  EXPECT_TRUE(differ({{1, {2.0, 24}}, {2, {1.6, 24}}, {3, {1.2, 24}}}, was, 3));
  EXPECT_TRUE(differ({{1, {std::nan(""), 24}}}, was, 3));
}

}  // namespace
}  // namespace asup::bench
