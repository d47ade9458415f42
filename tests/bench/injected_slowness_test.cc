#include "asup/bench/injected_slowness.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

InjectedSlowness slowness_of(const std::string& text, int rank = 3) {
  return InjectedSlowness::from([&](const char*) { return std::optional(text); }, rank, 1);
}

TEST(InjectedSlowness, SlowsTheRankThatIsNamedWhileItIsTold) {
  const std::string text = "sample_ms=2 slow=3:4:0.25:0.5";
  EXPECT_DOUBLE_EQ(slowness_of(text).seconds(10, 0.1), 0.02);
  EXPECT_DOUBLE_EQ(slowness_of(text).seconds(10, 0.25), 0.08);
  EXPECT_DOUBLE_EQ(slowness_of(text).seconds(10, 0.5), 0.02);
  EXPECT_DOUBLE_EQ(slowness_of(text, 2).seconds(10, 0.3), 0.02);
  EXPECT_DOUBLE_EQ(slowness_of("").seconds(10, 0.3), 0);
}

TEST(InjectedSlowness, SleepsAsLongAsABatchShouldTake) {
  InjectedSlowness slowness = slowness_of("sample_ms=20");
  const auto start = Clock::now();
  slowness.before_batch(2, 0);
  slowness.after_batch(2, 0);
  EXPECT_GE(seconds_since(start), 0.04);
}

TEST(InjectedSlowness, ALongFirstBatchDoesNotShortenTheSecond) {
  InjectedSlowness slowness = slowness_of("sample_ms=10");
  slowness.before_batch(2, 0);
  std::this_thread::sleep_for(Seconds(0.05));  // computes
  slowness.after_batch(2, 0);
  const auto start = Clock::now();
  slowness.before_batch(2, 0);
  EXPECT_GE(seconds_since(start), 0.02);
}

char state_of(pid_t process) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", process));
  return stat.at(stat.rfind(')') + 2);
}

// A process that halts itself, and then ends well.
TEST(InjectedSlowness, HaltsAndGoesOn) {
  const pid_t process = fork();
  if (process == 0) {
    InjectedSlowness slowness = slowness_of("sample_ms=1 halt=3:50:10:0:0.5");
    for (int batch = 0; batch < 3; ++batch) slowness.before_batch(100, 0);
    slowness.before_batch(1, 0.5);
    _exit(0);
  }
  bool was_halted = false;
  int status = -1;
  while (waitpid(process, &status, WNOHANG) == 0) {
    was_halted = was_halted || state_of(process) == 'T';
    std::this_thread::sleep_for(Seconds(0.001));
  }
  EXPECT_TRUE(was_halted);
  EXPECT_EQ(status, 0);
}

TEST(InjectedSlowness, WordsThatMakeNoSenseAreNamed) {
  EXPECT_THAT(message_of<BadInput>([] { slowness_of("speed=3"); }), HasSubstr("'speed=3'"));
  EXPECT_THAT(message_of<BadInput>([] { slowness_of("slow=1:x"); }), HasSubstr("'x' is no number"));
  EXPECT_THAT(message_of<BadInput>([] { slowness_of("slow=1"); }), HasSubstr("needs 2 to 4"));
  EXPECT_THAT(message_of<BadInput>([] { slowness_of("slow=1:4:0.2"); }), HasSubstr("no end"));
  EXPECT_THAT(message_of<BadInput>([] { slowness_of("halt=1:0:5"); }), HasSubstr("above 0"));
}

}  // namespace
}  // namespace asup::bench
