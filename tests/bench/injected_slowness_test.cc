#include "asup/bench/injected_slowness.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

InjectedSlowness slowness_of(const std::string& text, int rank = 3) {
  const net::Environment environment = [&](const std::string& name) {
    return name == "ASUP_INJECTED_SLOWNESS" ? std::optional(text) : std::nullopt;
  };
  return InjectedSlowness::from(environment, rank, 1);
}

TEST(InjectedSlowness, SlowsTheRankThatIsNamedWhileItIsTold) {
  const std::string text = "sample_ms=2 slow=3:4:0.25:0.5";
  EXPECT_DOUBLE_EQ(slowness_of(text).seconds(10, 0.1), 0.02);
  EXPECT_DOUBLE_EQ(slowness_of(text).seconds(10, 0.25), 0.08);
  EXPECT_DOUBLE_EQ(slowness_of(text).seconds(10, 0.5), 0.02);
  EXPECT_DOUBLE_EQ(slowness_of(text, 2).seconds(10, 0.3), 0.02);
  EXPECT_DOUBLE_EQ(slowness_of("").seconds(10, 0.3), 0);
}

TEST(InjectedSlowness, SlowsEachLayerAThirdOfItForward) {
  EXPECT_FALSE(slowness_of("sample_ms=2").watches_layers());
  InjectedSlowness slowness = slowness_of("layer_ms=6 slow=3:4:0.5:1");
  ASSERT_TRUE(slowness.watches_layers());
  for (const double progress : {0.0, 0.6}) {
    slowness.before_batch(1, progress);
    const double factor = progress > 0.5 ? 4 : 1;
    auto start = Clock::now();
    slowness.in_layer(false);
    EXPECT_GE(seconds_since(start), 0.002 * factor);
    start = Clock::now();
    slowness.in_layer(true);
    EXPECT_GE(seconds_since(start), 0.004 * factor);
  }
}

// Forward and backward of so many samples, with as many parameters as the slowness knows.
void pass(InjectedSlowness& slowness, std::size_t samples, std::size_t parameters) {
  slowness.before_backward(samples, 0);
  for (std::size_t i = parameters; i-- > 0;) {
    slowness.before_gradient(i, 0);
    slowness.after_gradient(i);
  }
}

TEST(InjectedSlowness, SleepsAsLongAsABatchShouldTake) {
  InjectedSlowness slowness = slowness_of("sample_ms=20");
  ASSERT_TRUE(slowness.watch_gradients({1, 1}));
  for (const std::size_t gradients : {0, 1, 2}) {  // those that do not come take their time, too
    const auto start = Clock::now();
    slowness.before_batch(2, 0);
    pass(slowness, 2, gradients);
    slowness.after_batch(2, 0);
    EXPECT_GE(seconds_since(start), 0.04);
  }
}

TEST(InjectedSlowness, AThirdIsForwardAndTheRestPassesGradientByGradient) {
  InjectedSlowness slowness = slowness_of("sample_ms=60");
  slowness.watch_gradients({10, 30, 60});  // elements, which stand for the first batch's work
  const auto start = Clock::now();
  slowness.before_batch(2, 0);
  slowness.before_backward(2, 0);
  EXPECT_GE(seconds_since(start), 0.04);
  slowness.before_gradient(2, 0);
  EXPECT_GE(seconds_since(start), 0.04 + 0.08 * 0.6);
  slowness.before_gradient(1, 0);
  EXPECT_GE(seconds_since(start), 0.04 + 0.08 * 0.9);
  slowness.before_gradient(0, 0);
  EXPECT_GE(seconds_since(start), 0.12);
}

// The least of several tries: a busy machine may hold any of them up.
template <typename Try>
double least_seconds(Try one) {
  double least = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = Clock::now();
    one();
    least = std::min(least, seconds_since(start));
  }
  return least;
}

// Each sleep of its own would be some 60 microseconds too long.
TEST(InjectedSlowness, ManyShortSleepsAreNoLongerThanOne) {
  constexpr std::size_t kParameters = 2000;
  InjectedSlowness slowness = slowness_of("sample_ms=25");
  slowness.watch_gradients(std::vector<std::int64_t>(kParameters, 1));
  const double least = least_seconds([&] {
    slowness.before_batch(4, 0);
    pass(slowness, 4, kParameters);
    slowness.after_batch(4, 0);
  });
  EXPECT_GE(least, 0.1);
  EXPECT_LT(least, 0.13);
}

TEST(InjectedSlowness, PortionsTakeTheTimeOfTheirSamples) {
  InjectedSlowness slowness = slowness_of("sample_ms=10");
  slowness.watch_gradients({1});
  const double least = least_seconds([&] {
    const auto start = Clock::now();
    slowness.before_batch(5, 0);
    pass(slowness, 3, 1);
    EXPECT_GE(seconds_since(start), 0.03);
    pass(slowness, 2, 1);
    EXPECT_GE(seconds_since(start), 0.05);
    slowness.after_batch(5, 0);
  });
  EXPECT_LT(least, 0.07);
}

TEST(InjectedSlowness, TimeThatWasWaitedIsNoTimeOfComputing) {
  InjectedSlowness slowness = slowness_of("sample_ms=30");
  slowness.watch_gradients({1});
  const auto start = Clock::now();
  slowness.before_batch(1, 0);
  std::this_thread::sleep_for(Seconds(0.05));  // for others, in forward
  slowness.before_backward(1, 0.05);
  slowness.before_gradient(0, 0.05);
  EXPECT_GE(seconds_since(start), 0.08);
}

TEST(InjectedSlowness, ComputingIsPartOfTheTimeOfItsOwnBatchAlone) {
  InjectedSlowness slowness = slowness_of("sample_ms=20");
  slowness.watch_gradients({1});
  const double least = least_seconds([&] {
    slowness.before_batch(2, 0);
    std::this_thread::sleep_for(Seconds(0.03));  // computes
    pass(slowness, 2, 1);
    slowness.after_batch(2, 0);
  });
  EXPECT_GE(least, 0.04);
  EXPECT_LT(least, 0.06);
  slowness.before_batch(2, 0);
  std::this_thread::sleep_for(Seconds(0.1));
  slowness.after_batch(2, 0);
  const auto start = Clock::now();
  slowness.before_batch(2, 0);
  slowness.after_batch(2, 0);
  EXPECT_GE(seconds_since(start), 0.04);
}

TEST(InjectedSlowness, APauseIsBeforeForward) {
  InjectedSlowness slowness = slowness_of("sample_ms=10 pause=3:1:4");
  const auto start = Clock::now();
  slowness.before_batch(1, 0);
  EXPECT_GE(seconds_since(start), 0.04);
  slowness.after_batch(1, 0);
  EXPECT_GE(seconds_since(start), 0.05);
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
    for (int batch = 0; batch < 3; ++batch) {
      slowness.before_batch(100, 0);
      slowness.after_batch(100, 0);
    }
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
