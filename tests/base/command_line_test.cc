#include "asup/base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace asup {
namespace {

TEST(CommandLine, IsOurOwnUnlessALauncherLeftOne) {
  ::unsetenv("ASUP_COMMAND_LINE");
  const std::string own = command_line();
  EXPECT_THAT(own, ::testing::StartsWith("base_test"));
  EXPECT_EQ(command_line_variable(), "ASUP_COMMAND_LINE=" + own);
  ::setenv("ASUP_COMMAND_LINE", "asup train --out 'my run'", 1);
  EXPECT_EQ(command_line(), "asup train --out 'my run'");
  ::unsetenv("ASUP_COMMAND_LINE");
}

}  // namespace
}  // namespace asup
