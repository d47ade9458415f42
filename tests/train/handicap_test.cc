#include "asup/train/handicap.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::train {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

Handicap handicap_of(const std::string& text, int rank = 3) {
  return Handicap::from([&](const char*) { return std::optional(text); }, rank, 1);
}

TEST(Handicap, SlowsTheRankThatIsNamedWhileItIsTold) {
  const std::string text = "sample_ms=2 slow=3:4:0.25:0.5";
  EXPECT_DOUBLE_EQ(handicap_of(text).seconds(10, 0.1), 0.02);
  EXPECT_DOUBLE_EQ(handicap_of(text).seconds(10, 0.25), 0.08);
  EXPECT_DOUBLE_EQ(handicap_of(text).seconds(10, 0.5), 0.02);
  EXPECT_DOUBLE_EQ(handicap_of(text, 2).seconds(10, 0.3), 0.02);
  EXPECT_DOUBLE_EQ(handicap_of("").seconds(10, 0.3), 0);
}

TEST(Handicap, SleepsAsLongAsABatchShouldTake) {
  Handicap handicap = handicap_of("sample_ms=20");
  const auto start = Clock::now();
  handicap.before_batch(2, 0);
  handicap.after_batch(2);
  EXPECT_GE(seconds_since(start), 0.04);
}

TEST(Handicap, WordsThatMakeNoSenseAreNamed) {
  EXPECT_THAT(message_of<BadInput>([] { handicap_of("speed=3"); }), HasSubstr("'speed=3'"));
  EXPECT_THAT(message_of<BadInput>([] { handicap_of("slow=1:x"); }), HasSubstr("'x' is no number"));
  EXPECT_THAT(message_of<BadInput>([] { handicap_of("slow=1"); }), HasSubstr("needs 2 to 4"));
  EXPECT_THAT(message_of<BadInput>([] { handicap_of("slow=1:4:0.2"); }), HasSubstr("no end"));
}

}  // namespace
}  // namespace asup::train
