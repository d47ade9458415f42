#include "asup/bench/compare/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr const char* kMetrics =
    R"({"step":1,"loss":2.0,"step_s":0.5,"seconds":0.5}
{"step":2,"loss":1.5,"step_s":3.0,"seconds":3.5}
{"step":2,"test_accuracy":0.4,"eval_s":1.0,"seconds":4.5}
{"step":3,"loss":1.0,"step_s":0.25,"seconds":4.75}
{"step":4,"loss":0.5,"step_s":0.25,"seconds":5.0}
{"step":4,"test_accuracy":0.9,"eval_s":2.0,"seconds":7.0}
)";
constexpr const char* kSummary =
    R"({"step":4,"samples":512,"bytes_sent":8000000,"comm_share":0.25,)"
    R"("server":{"mean_staleness_steps":1.5,"worst_staleness_steps":4}})";

TEST(Figures, LeaveTestsOutOfTheTime) {
  const TemporaryFolder folder;
  folder.write("metrics.jsonl", kMetrics);
  folder.write("summary.json", kSummary);
  const Figures figures = read_figures(folder.path(), 0.65);
  ASSERT_EQ(figures.curve.size(), 2u);
  EXPECT_DOUBLE_EQ(figures.curve[0].seconds, 3.5);
  EXPECT_DOUBLE_EQ(figures.seconds, 4.0);
  // Half of the way from 0.4 to 0.9.
  EXPECT_THAT(figures.seconds_to_target, Optional(3.75));
  EXPECT_DOUBLE_EQ(figures.accuracy, 0.9);
  EXPECT_DOUBLE_EQ(figures.samples, 512);
  EXPECT_DOUBLE_EQ(figures.bytes, 8e6);
  EXPECT_DOUBLE_EQ(figures.idle, 0.25);
  EXPECT_DOUBLE_EQ(figures.worst_staleness, 4);
  EXPECT_EQ(figures.updates, 4);
  EXPECT_FALSE(figures.diverged);
  EXPECT_FALSE(read_figures(folder.path(), 0.95).seconds_to_target);
}

TEST(Figures, MayBeOfSamplesThatWereSetAside) {
  const TemporaryFolder folder;
  folder.write("metrics.jsonl",
               R"({"step":2,"validation_accuracy":0.4,"eval_s":1.0,"seconds":4.5}
{"step":4,"validation_accuracy":0.8,"eval_s":2.0,"seconds":7.0}
{"step":4,"test_accuracy":0.9,"eval_s":1.0,"seconds":8.5}
)");
  folder.write("summary.json", kSummary);
  const Figures figures = read_figures(folder.path(), 0.6, TestedOn::validation);
  ASSERT_EQ(figures.curve.size(), 2u);
  EXPECT_DOUBLE_EQ(figures.accuracy, 0.8);
  EXPECT_DOUBLE_EQ(figures.seconds, 4.0);
  EXPECT_THAT(figures.seconds_to_target, Optional(3.75));
  const Figures tested = read_figures(folder.path(), 0.6);
  ASSERT_EQ(tested.curve.size(), 1u);
  EXPECT_DOUBLE_EQ(tested.accuracy, 0.9);
  EXPECT_DOUBLE_EQ(tested.seconds, 4.5);
}

TEST(Figures, KnowARunWithoutAnEnd) {
  const TemporaryFolder folder;
  folder.write("metrics.jsonl", kMetrics);
  const Figures figures = read_figures(folder.path(), 0.2);
  EXPECT_TRUE(figures.diverged);
  EXPECT_THAT(figures.seconds_to_target, Optional(1.75));  // before the first test too
}

TEST(Figures, SayWhichFolderIsNone) {
  const TemporaryFolder folder;
  folder.write("summary.json", R"({"samples":1})");
  EXPECT_THAT(message_of<BadInput>([&] { read_figures(folder.path(), 0.8); }),
              HasSubstr(folder.path() + ": is no run of this version of asup"));
}

TEST(Figures, TakeTheMedianStep) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<BadInput>([&] { seconds_of_a_step(folder.path()); }),
              HasSubstr("tells of no step"));
  folder.write("metrics.jsonl", kMetrics);
  EXPECT_DOUBLE_EQ(seconds_of_a_step(folder.path()), 0.5);
}

TEST(Figures, TellEqualLosses) {
  const TemporaryFolder one, shorter, other, empty;
  one.write("metrics.jsonl", kMetrics);
  shorter.write("metrics.jsonl", "{\"step\":1,\"loss\":2.0}\n");
  other.write("metrics.jsonl", "{\"step\":1,\"loss\":2.0}\n{\"step\":3,\"loss\":1.125}\n");
  EXPECT_TRUE(same_losses(shorter.path(), one.path()));
  EXPECT_FALSE(same_losses(other.path(), one.path()));
  EXPECT_FALSE(same_losses(empty.path(), one.path()));
}

TEST(Figures, AreComputedFromStepsAndTheirTime) {
  Figures steps, timed;
  steps.curve = {{100, 3, 0.5}, {200, 6, 0.9}};
  steps.seconds = 6;
  steps.accuracy = 0.9;
  steps.idle = 0.1;
  timed.idle = 0.9;
  const Figures computed = as_if_timed(steps, timed, 2.0, 0.7);
  EXPECT_DOUBLE_EQ(computed.seconds, 400);
  EXPECT_THAT(computed.seconds_to_target, Optional(300.0));
  EXPECT_DOUBLE_EQ(computed.idle, 0.9);
  EXPECT_DOUBLE_EQ(computed.accuracy, 0.9);
}

}  // namespace
}  // namespace asup::bench
