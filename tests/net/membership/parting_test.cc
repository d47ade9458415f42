#include "asup/net/membership/parting.h"

#include <gtest/gtest.h>

namespace asup::net {
namespace {

// However a job's workers part, and whoever of them ends, at most one group goes on.
TEST(Parting, TwoGroupsNeverBothGoOn) {
  for (int before = 1; before <= 9; ++before)
    for (int ended = 0; ended <= before; ++ended)
      for (int here = 0; here + ended <= before; ++here) {
        const int there = before - ended - here;
        // A group may know of fewer ends than there were.
        for (int known = 0; known <= ended; ++known) {
          const Parting with{before, here, known, true};
          const Parting without{before, there, ended, false};
          EXPECT_FALSE(with.may_go_on() && without.may_go_on() && here > 0 && there > 0)
              << before << " " << here << " " << there;
        }
        EXPECT_FALSE((Parting{before, here, ended, false}.may_go_on()) &&
                     (Parting{before, there, ended, false}.may_go_on()) && there > 0 && here > 0);
      }
}

TEST(Parting, TheCoordinatorsWordIsEnoughWhereTheOthersHaveEnded) {
  EXPECT_TRUE((Parting{4, 1, 3, true}.may_go_on()));
  EXPECT_FALSE((Parting{4, 1, 0, true}.may_go_on()));
  EXPECT_TRUE((Parting{4, 2, 0, true}.may_go_on()));
  EXPECT_FALSE((Parting{4, 2, 0, false}.may_go_on()));
  EXPECT_TRUE((Parting{4, 3, 0, false}.may_go_on()));
}

TEST(Parting, OfTwoHostsTheOneWithoutTheCoordinatorEnds) {
  EXPECT_TRUE((Parting{2, 1, 0, true}.may_go_on()));
  EXPECT_EQ((Parting{2, 1, 0, false}.why_not_go_on().substr(0, 45)),
            "1 of 2 workers are left without the coordinat");
}

}  // namespace
}  // namespace asup::net
