#include "asup/collective/mesh/control_messages.h"

#include <gmock/gmock.h>

namespace asup::collective {
namespace {

using ::testing::ElementsAre;

TEST(Notes, AFailureIsReadAsItWasWritten) {
  const Failure failure{3, {Outcome::Kind::lost, "rank 2 (pid 7) was lost, at 5", {2, 5}}};
  const auto read = read_failure(write_failure(failure));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->generation, 3u);
  EXPECT_EQ(read->outcome.kind(), Outcome::Kind::lost);
  EXPECT_EQ(read->outcome.message(), failure.outcome.message());
  EXPECT_THAT(read->outcome.ranks(), ElementsAre(2, 5));
}

TEST(Notes, AFailureMayNameNobody) {
  const auto read = read_failure(write_failure({0, {Outcome::Kind::broken, "it is gone"}}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->outcome.message(), "it is gone");
  EXPECT_TRUE(read->outcome.ranks().empty());
}

TEST(Notes, WhatNoMemberWritesIsNoNote) {
  for (const char* wrong : {"", "1", "x 1  y", "1 0  ok is no failure", "1 99  y", "1 2x y", "1 2"})
    EXPECT_FALSE(read_failure(wrong)) << wrong;
  for (const char* wrong : {"", "x", "12x", "-1", "99999999999999999999999", "1 ", "1 x", "1 -2"})
    EXPECT_FALSE(read_whereabouts(wrong)) << wrong;
}

TEST(Notes, SayWhereARankIs) {
  const auto busy = read_whereabouts(write_whereabouts({12, {}}));
  ASSERT_TRUE(busy);
  EXPECT_EQ(busy->started, 12u);
  EXPECT_FALSE(busy->waits_for);
  const auto waiting = read_whereabouts(write_whereabouts({3, 2}));
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->started, 3u);
  EXPECT_EQ(waiting->waits_for, 2);
}

}  // namespace
}  // namespace asup::collective
