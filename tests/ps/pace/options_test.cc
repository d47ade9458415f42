#include "asup/ps/pace/options.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup::ps::pace {
namespace {

TEST(PaceOptions, NamesAreReadAsTheyAreWritten) {
  for (const Kind kind : {Kind::bsp, Kind::ssp, Kind::asp, Kind::kasync, Kind::adaptive})
    EXPECT_EQ(kind_of(name_of(kind)), kind);
  for (const NonFinite policy : {NonFinite::skip, NonFinite::fatal, NonFinite::apply})
    EXPECT_EQ(non_finite_of(name_of(policy)), policy);
}

TEST(PaceOptions, AWrongNameIsRefusedWithTheRightOnes) {
  try {
    (void)kind_of("adaptve");
    FAIL();
  } catch (const BadInput& bad) {
    EXPECT_STREQ(
        bad.what(),
        "there is no pace 'adaptve'; did you mean 'adaptive'?; choose one of: bsp, ssp, asp, "
        "kasync, adaptive");
  }
}

TEST(PaceOptions, WhatCannotWorkIsRefused) {
  EXPECT_NO_THROW(require_sense({.kind = Kind::bsp, .backup = 3}, 4));
  EXPECT_THROW(require_sense({.kind = Kind::bsp, .backup = 4}, 4), BadInput);
  EXPECT_THROW(require_sense({.kind = Kind::asp, .backup = 1}, 4), BadInput);
  EXPECT_THROW(require_sense({.kind = Kind::ssp, .staleness = -1}, 4), BadInput);
  EXPECT_THROW(require_sense({.kind = Kind::kasync, .gather = 5}, 4), BadInput);
  EXPECT_THROW(require_sense({}, 0), BadInput);
}

}  // namespace
}  // namespace asup::ps::pace
