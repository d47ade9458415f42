#include "asup/bench/compare/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

TEST(Training, LetsTheWaySpeakLast) {
  Training training{.steps = 100, .tests = 4, .lr = 0.02, .folder = "/somewhere"};
  const TrainingRun run{.name = "mine-7",
                        .way = {"mine", "--sync diloco --optimizer adamw --lr 0.001"},
                        .seed = 7,
                        .flags = {"--stop-at", "3"}};
  const std::string command = text_of(command_of(training, run, "/bin/asup"));
  EXPECT_THAT(command, AllOf(HasSubstr("/bin/asup train --workers 4 "), HasSubstr("--seed 7 "),
                             HasSubstr("--eval-every 25 "), HasSubstr("--out /somewhere/mine-7 "),
                             ::testing::EndsWith("--optimizer adamw --lr 0.001 --stop-at 3 ")));
  EXPECT_LT(command.find("--lr 0.02"), command.find("--lr 0.001"));
  training.optimizer = "rmsprop";
  training.flags = "--stem  small";
  EXPECT_THAT(text_of(command_of(training, {.name = "x", .way = {"x", "--sync local"}}, "asup")),
              AllOf(HasSubstr("--optimizer rmsprop --lr 0.02 "),
                    ::testing::EndsWith("--stem small --sync local ")));
}

TEST(Training, MayBeForEpochs) {
  const Training training{.epochs = 3, .threads = 2, .folder = "/runs"};
  EXPECT_THAT(text_of(command_of(training, {.name = "x", .way = {"x", ""}}, "asup")),
              AllOf(HasSubstr("--epochs 3 "), HasSubstr("--eval-every epoch "),
                    HasSubstr("--threads 2 "), ::testing::Not(HasSubstr("--steps"))));
}

TEST(Training, KnowsWhatAWayTrainsWith) {
  Training training{.optimizer = "sgd", .lr = 0.02};
  const Way plain{"plain", "--sync local"}, own{"own", "--optimizer=adamw --lr 0.001"};
  EXPECT_EQ(optimizer_of(training, plain), "sgd");
  EXPECT_EQ(optimizer_of(training, own), "adamw");
  EXPECT_DOUBLE_EQ(rate_of(training, plain), 0.02);
  EXPECT_DOUBLE_EQ(rate_of(training, own), 0.001);
  training.flags = "--optimizer rmsprop --lr 0.3";
  EXPECT_EQ(optimizer_of(training, plain), "rmsprop");
  EXPECT_DOUBLE_EQ(rate_of(training, plain), 0.3);
  EXPECT_EQ(optimizer_of(training, own), "adamw");
}

TEST(Training, ATunedLearningRateCountsMoreThanTheWays) {
  const TrainingRun run{.name = "x", .way = {"x", "--sync diloco --lr 0.001"}, .lr = 0.004};
  EXPECT_THAT(text_of(command_of({.folder = "/runs"}, run, "asup")),
              ::testing::EndsWith("--sync diloco --lr 0.001 --lr 0.004 "));
}

TEST(Training, ReadsALearningRate) {
  Training training;
  training.set_lr("auto");
  EXPECT_TRUE(training.tunes);
  training.set_lr("0.25");
  EXPECT_FALSE(training.tunes);
  EXPECT_DOUBLE_EQ(training.lr, 0.25);
  for (const char* wrong : {"", "0", "-1", "x", "0.1,0.2", "nan"})
    EXPECT_THAT(message_of<BadInput>([&] { training.set_lr(wrong); }),
                HasSubstr("a number above 0, or auto"))
        << wrong;
}

TEST(Training, RefusesWhatCannotBe) {
  const auto complaint = [](const Training& training) {
    return message_of<BadInput>([&] { training.check(); });
  };
  EXPECT_EQ(complaint({}), "");
  EXPECT_THAT(complaint({.workers = 1}), HasSubstr("--workers 1: between 2 and 64"));
  EXPECT_THAT(complaint({.batch = 3}), HasSubstr("--batch 3: one step, and a sample a worker"));
  EXPECT_THAT(complaint({.steps = 5, .tests = 6}), HasSubstr("--tests 6: between 1 and the 5"));
  EXPECT_THAT(complaint({.lr = 0}), HasSubstr("--lr 0: must be above 0"));
  EXPECT_THAT(complaint({.rates = "here"}), HasSubstr("--rates here: learning rates are tuned"));
  EXPECT_THAT(complaint({.sample_ms = 0}), HasSubstr("--sample-ms 0"));
  EXPECT_THAT(complaint({.target = 80}), HasSubstr("--target 80: an accuracy is between 0 and 1"));
}

TEST(Rate, IsReadAndWritten) {
  EXPECT_EQ(parse_rate("100mbit"), 1e8);
  EXPECT_EQ(parse_rate("2.5gbit"), 2.5e9);
  EXPECT_EQ(rate_word(1e8), "100 Mbit/s");
  EXPECT_EQ(rate_word(1e9), "1 Gbit/s");
  for (const char* wrong : {"", "100", "0mbit", "-1gbit", "1tbit", "mbit", "1gbit "})
    EXPECT_THAT(message_of<BadInput>([&] { parse_rate(wrong); }), HasSubstr("is no rate")) << wrong;
}

TEST(ProgramRunner, GivesTheStatusAndKeepsTheWords) {
  const TemporaryFolder folder;
  ProgramRunner runner;
  EXPECT_EQ(runner.run({"sh", "-c", "echo $WORD; exit 3"}, {"WORD=said"}, folder.file("log")), 3);
  std::string said;
  std::getline(std::ifstream(folder.file("log")), said);
  EXPECT_EQ(said, "said");
  EXPECT_EQ(runner.run({"sh", "-c", "kill -9 $$"}, {}, folder.file("log")), 128 + SIGKILL);
}

TEST(ProgramRunner, RunsSomeAtATime) {
  const TemporaryFolder folder;
  const std::string go = folder.file("go");
  {
    ProgramRunner runner;
    // The first ends after the second.
    const pid_t first =
        runner.start({"sh", "-c", "until [ -e " + go + " ]; do sleep 0.01; done; exit 4"}, {},
                     folder.file("first"));
    const pid_t second = runner.start({"sh", "-c", "exit 5"}, {}, folder.file("second"));
    const ProgramRunner::Ended one = runner.wait();
    EXPECT_EQ(one.pid, second);
    EXPECT_EQ(one.status, 5);
    folder.write("go", "");
    const ProgramRunner::Ended other = runner.wait();
    EXPECT_EQ(other.pid, first);
    EXPECT_EQ(other.status, 4);
    runner.start(
        {"sh", "-c",
         "trap 'echo ended; exit' TERM; echo > " + folder.file("is-there") + "; sleep 100 & wait"},
        {}, folder.file("left"));
    while (!std::filesystem::exists(folder.file("is-there"))) usleep(1000);
  }
  std::string said;
  std::getline(std::ifstream(folder.file("left")), said);
  EXPECT_EQ(said, "ended");
}

TEST(ProgramRunner, EndsTheProgramWhenItIsToldToEnd) {
  const TemporaryFolder folder;
  ProgramRunner runner;
  // It tells us to end, and writes when it is told itself.
  const std::string script = "trap 'echo ended; exit' TERM; kill -TERM $PPID; sleep 100 & wait";
  try {
    runner.run({"sh", "-c", script}, {}, folder.file("log"));
    ADD_FAILURE() << "a signal came, and nobody said so";
  } catch (const Interrupted& interrupted) {
    EXPECT_EQ(interrupted.exit_status(), 128 + SIGTERM);
    EXPECT_STREQ(interrupted.what(), "ended by SIGTERM");
  }
  std::string said;
  std::getline(std::ifstream(folder.file("log")), said);
  EXPECT_EQ(said, "ended");
  EXPECT_EQ(runner.run({"true"}, {}, folder.file("log")), 0);
}

}  // namespace
}  // namespace asup::bench
