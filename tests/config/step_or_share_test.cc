#include "asup/config/step_or_share.h"

#include <gtest/gtest.h>

namespace asup {
namespace {

TEST(StepOrShare, IsAStepOrAShareOfTheRun) {
  EXPECT_EQ(StepOrShare::from_text("500")->steps(1000), 500);
  EXPECT_EQ(StepOrShare::from_text("30%")->steps(1000), 300);
  EXPECT_EQ(StepOrShare::from_text("0")->steps(1000), 0);
  EXPECT_EQ(StepOrShare::from_text("12.5%")->steps(80), 10);
  EXPECT_EQ(StepOrShare::from_text("100%")->steps(7), 7);
}

TEST(StepOrShare, IsWrittenAsItIsRead) {
  for (const char* text : {"0", "500", "30%", "12.5%"})
    EXPECT_EQ(StepOrShare::from_text(text)->to_text(), text);
}

TEST(StepOrShare, OtherTextsAreNone) {
  for (const char* text : {"", "%", "-1", "1.5", "101%", "-1%", "30 %", "half", "nan", "inf%"})
    EXPECT_FALSE(StepOrShare::from_text(text)) << text;
}

}  // namespace
}  // namespace asup
