#include "asup/base/log.h"

#include <gmock/gmock.h>

namespace asup {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Log, LeavesStandardOutputToTheProgram) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  log().warn("the {} is gone", "launcher");
  log().flush();
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), IsEmpty());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the launcher is gone"));
}

TEST(Log, SaysNothingBelowAWarningUnasked) {
  ::testing::internal::CaptureStderr();
  log().info("all is well");
  log().flush();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

TEST(Log, NamesTheProcess) {
  set_up_log("rank 3");
  ::testing::internal::CaptureStderr();
  log().error("stuck");
  log().flush();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("[rank 3] stuck"));
}

}  // namespace
}  // namespace asup
