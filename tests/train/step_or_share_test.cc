#include "asup/train/step_or_share.h"

#include <gtest/gtest.h>

namespace asup::train {
namespace {

TEST(StepOrShare, IsAStepOrAShareOfTheRun) {
  EXPECT_EQ(step_or_share_in("500")->steps(1000), 500);
  EXPECT_EQ(step_or_share_in("30%")->steps(1000), 300);
  EXPECT_EQ(step_or_share_in("0")->steps(1000), 0);
  EXPECT_EQ(step_or_share_in("12.5%")->steps(80), 10);
  EXPECT_EQ(step_or_share_in("100%")->steps(7), 7);
}

TEST(StepOrShare, OtherTextsAreNone) {
  for (const char* text : {"", "%", "-1", "1.5", "101%", "-1%", "30 %", "half", "nan", "inf%"})
    EXPECT_FALSE(step_or_share_in(text)) << text;
}

}  // namespace
}  // namespace asup::train
