#include "asup/train/moment.h"

#include <gtest/gtest.h>

namespace asup::train {
namespace {

TEST(Moment, IsAStepOrAShareOfTheRun) {
  EXPECT_EQ(moment_in("500")->steps(1000), 500);
  EXPECT_EQ(moment_in("30%")->steps(1000), 300);
  EXPECT_EQ(moment_in("0")->steps(1000), 0);
  EXPECT_EQ(moment_in("12.5%")->steps(80), 10);
  EXPECT_EQ(moment_in("100%")->steps(7), 7);
}

TEST(Moment, OtherTextsAreNone) {
  for (const char* text : {"", "%", "-1", "1.5", "101%", "-1%", "30 %", "half", "nan", "inf%"})
    EXPECT_FALSE(moment_in(text)) << text;
}

}  // namespace
}  // namespace asup::train
