#include "asup/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/thread.h"
#include "asup/net/membership/address.h"
#include "launched.h"
#include "member_job.h"

namespace asup::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Launch, PrefixesEachRanksLines) {
  Launched job(shell_job(3,
                         "echo $ASUP_RANK of $ASUP_SIZE, local $ASUP_LOCAL_RANK of "
                         "$ASUP_LOCAL_SIZE; echo problem >&2; printf unfinished"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out_lines(),
              ElementsAre("[0] 0 of 3, local 0 of 3", "[0] unfinished", "[1] 1 of 3, local 1 of 3",
                          "[1] unfinished", "[2] 2 of 3, local 2 of 3", "[2] unfinished"));
  EXPECT_THAT(job.err(), AllOf(HasSubstr("[0] problem\n"), HasSubstr("[2] problem\n")));
}

TEST(Launch, OrWithoutPrefix) {
  LaunchOptions options = shell_job(2, "echo hello");
  options.prefix = false;
  Launched job(options);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "hello\nhello\n");
}

TEST(Launch, OrIntoFiles) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("asup_launch_test." + std::to_string(getpid()));
  LaunchOptions options = shell_job(2, "echo from $ASUP_RANK; echo trouble >&2; exit $ASUP_RANK");
  options.output_dir = folder / "logs";
  Launched job(options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.out(), "");
  std::ifstream file(folder / "logs/rank_1.log");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "from 1\ntrouble\n");
  EXPECT_THAT(job.last_line(),
              HasSubstr("its output is in " + (folder / "logs/rank_1.log").string()));
  std::filesystem::remove_all(folder);
}

TEST(Launch, RankZeroMayWriteToTheTerminalItself) {
  LaunchOptions options = shell_job(2, "echo rank $ASUP_RANK");
  options.inherit_rank_zero = true;
  Launched job(options);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_THAT(job.out_lines(), ElementsAre("[1] rank 1", "rank 0"));
}

TEST(Launch, NothingOfMuchOutputIsLost) {
  Launched job(shell_job(2, "seq 1 100000; seq 1 20000 >&2"));
  EXPECT_EQ(job.wait(), 0);
  const std::string out = job.out(), err = job.err();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 200'000);
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 40'000);
  for (const char* last : {"\n[0] 100000\n", "\n[1] 100000\n"})  // a mismatch would print it all
    EXPECT_NE(out.find(last), out.npos) << last;
}

TEST(Launch, VariablesAndThreads) {
  LaunchOptions options = shell_job(2, "echo $FIRST $SECOND $OMP_NUM_THREADS");
  setenv("FIRST", "one", 1);
  options.environment = {"FIRST", "SECOND=two"};
  unsetenv("OMP_NUM_THREADS");
  Launched job(options);
  EXPECT_EQ(job.wait(), 0);
  const int threads = std::max(1, usable_cores() / 2);
  EXPECT_EQ(job.out_lines()[0], fmt::format("[0] one two {}", threads));

  options.environment = {"NO_SUCH_VARIABLE"};
  Launched wrong(options);
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_EQ(wrong.last_line(), "bad input: --env NO_SUCH_VARIABLE: it is not set here");
}

TEST(Launch, RanksJoinThroughItsCoordinator) {
  Launched job(member_job(3, {"join"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  const auto lines = job.out_lines();
  ASSERT_EQ(lines.size(), 3u) << job.out();
  EXPECT_THAT(lines[2], AllOf(StartsWith("[2] rank 2 (pid "), HasSubstr(" of 3, id 3")));
}

TEST(Launch, AProgramThatCannotBeStartedIsBadInput) {
  LaunchOptions options;
  options.ranks = 2;
  options.program = {"./no/such/program"};
  Launched missing(options);
  EXPECT_EQ(missing.wait(), 2);
  EXPECT_EQ(missing.last_line(),
            "bad input: cannot start ./no/such/program: No such file or directory");
  options.program = {"/etc/passwd"};
  Launched not_a_program(options);
  EXPECT_EQ(not_a_program.wait(), 2);
  EXPECT_EQ(not_a_program.last_line(), "bad input: cannot start /etc/passwd: Permission denied");
}

TEST(Launch, APortInUseIsBadInput) {
  const Fd taken = net::listen_on(net::interface_address("127.0.0.1"), "");
  LaunchOptions options = shell_job(1, "true");
  options.port = net::bound_address(taken.get()).port();
  Launched job(options);
  EXPECT_EQ(job.wait(), 2);
  EXPECT_THAT(job.last_line(), AllOf(HasSubstr(fmt::format("port {} is in use", options.port)),
                                     HasSubstr("--port")));
}

TEST(Failure, AnExitStatusEndsTheJobAndIsNamed) {
  Launched job(shell_job(3, "echo pid=$$; [ $ASUP_RANK = 1 ] && sleep 0.3 && exit 3; sleep 1000"));
  const auto start = Clock::now();
  EXPECT_EQ(job.wait(), 1);
  EXPECT_LT(seconds_since(start), 60.0);
  const auto pids = numbers_after(job.out(), "[1] pid=");
  ASSERT_EQ(pids.size(), 1u);
  EXPECT_EQ(job.last_line(), fmt::format("rank 1 (pid {} on {}) exited with status 3", pids[0],
                                         net::this_hostname()));
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

TEST(Failure, ASignalIsNamed) {
  Launched job(shell_job(2, "[ $ASUP_RANK = 0 ] && kill -SEGV $$; sleep 1000"));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(), AllOf(StartsWith("rank 0 (pid "), HasSubstr("signal 11 (SIGSEGV)")));
}

// The victim is to blame, not the survivors, which fail because of it and have time to say so.
TEST(Failure, SurvivorsSayWhomTheyLost) {
  for (const char* how : {"9", "exit"}) {
    Launched job(member_job(3, {"die", "1", how}));
    const auto start = Clock::now();
    EXPECT_EQ(job.wait(), 1);
    EXPECT_LT(seconds_since(start), 60.0);
    EXPECT_THAT(job.out(), AllOf(HasSubstr("[0] lost rank 1 (pid "), HasSubstr("[2] lost rank 1")));
    EXPECT_THAT(job.last_line(), StartsWith("rank 1 (pid ")) << how;
  }
}

// Whoever waits for a start that takes long sees that something happens.
TEST(Launch, TellsOfASlowStart) {
  LaunchOptions options = member_job(3, {"never", "2"});
  options.name = "asup run";
  options.join_timeout = Seconds(10);
  options.start_news = Seconds(0.5);
  Launched job(options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.err(), AllOf(StartsWith("asup run: starting 3 workers …\n"),
                               HasSubstr("\nasup run: 2 of 3 workers have joined\n")));

  options = shell_job(1, "sleep 3");
  options.program_joins = true;
  Launched late(options);
  EXPECT_EQ(late.wait(), 0);
  EXPECT_EQ(late.err(), "asup run: starting 1 worker …\n");
}

// Nothing is said of a start that is none: many programs never join.
TEST(Launch, SaysNothingOfProgramsThatDoNotJoin) {
  Launched job(shell_job(2, "sleep 3"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.err(), "");
}

TEST(Failure, ARankThatNeverJoinsIsNamed) {
  LaunchOptions options = member_job(3, {"never", "2"});
  options.join_timeout = Seconds(10);  // also what the others have to reach the coordinator
  Launched job(options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.last_line(), "rank 2 never joined within 10 s; ranks 0 and 1 did");
}

TEST(Failure, ARankThatEndsInsteadOfJoiningIsNamedAtOnce) {
  Launched job(member_job(2, {"early", "1"}));
  const auto start = Clock::now();
  EXPECT_EQ(job.wait(), 1);
  EXPECT_LT(seconds_since(start), 60.0);
  EXPECT_THAT(job.last_line(), AllOf(StartsWith("rank 1 (pid "),
                                     HasSubstr("exited with status 0 before it joined")));
}

TEST(Failure, WhoDoesNotHearSigtermIsKilled) {
  LaunchOptions options =
      shell_job(2,
                "trap '' TERM; echo pid=$$; [ $ASUP_RANK = 1 ] && exit 3; sleep 1000 & wait; "
                "while true; do sleep 1; done");
  options.grace = Seconds(0.5);
  Launched job(options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(), StartsWith("rank 1 "));
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

TEST(Leftovers, WhatARankHasStartedEndsWithIt) {
  Launched job(shell_job(2, "sleep 1000 & echo pid=$!"));
  EXPECT_EQ(job.wait(), 0);
  const auto pids = numbers_after(job.out(), "pid=");
  ASSERT_EQ(pids.size(), 2u);
  EXPECT_TRUE(all_gone(pids, Seconds(0)));
}

TEST(Leftovers, AKilledLauncherTakesAllAlong) {
  Launched job(shell_job(2, "trap '' TERM; sleep 1000 & echo pid=$! pid=$$; wait; sleep 1000"));
  ASSERT_TRUE(job.wait_for_output("pid=", 4));
  const auto pids = numbers_after(job.out(), "pid=");
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_TRUE(all_gone(pids, Seconds(60)));
}

TEST(Signals, CtrlCReachesAllRanksAndEndsTheJob) {
  Launched job(shell_job(2,
                         "trap 'echo interrupted; exit 0' INT; echo pid=$$; "
                         "while true; do sleep 0.1; done"));
  ASSERT_TRUE(job.wait_for_output("pid=", 2));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(), 130);
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[0] interrupted"), HasSubstr("[1] interrupted")));
  EXPECT_EQ(job.last_line(), "ended by SIGINT (Ctrl-C)");
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

// CUDA starts a thread that blocks no signal when it is asked for the number of GPUs.
TEST(Signals, ArePassedOnByThreadsThatWereThereBefore) {
  const auto beside_a_thread = [](const std::string& script) {
    std::thread([] {
      while (true) pause();
    }).detach();
    return run(shell_job(2, script)).exit_status;
  };
  Launched ends([&] { return beside_a_thread("exit 0"); });
  EXPECT_EQ(ends.wait(Seconds(60)), 0) << ends.err();
  Launched stays([&] { return beside_a_thread("echo pid=$$; exec sleep 1000"); });
  ASSERT_TRUE(stays.wait_for_output("pid=", 2));
  stays.signal(SIGTERM);
  EXPECT_EQ(stays.wait(), 128 + SIGTERM) << stays.err();
  EXPECT_TRUE(all_gone(numbers_after(stays.out(), "pid="), Seconds(0)));
}

TEST(Signals, OtherSignalsGiveTheirOwnStatus) {
  for (const int number : {SIGTERM, SIGHUP}) {
    Launched job(shell_job(2, "echo pid=$$; exec sleep 1000"));
    ASSERT_TRUE(job.wait_for_output("pid=", 2));
    job.signal(number);
    EXPECT_EQ(job.wait(), 128 + number);
    EXPECT_EQ(job.last_line(), "ended by " + signal_name(number));
  }
}

TEST(Signals, ASecondCtrlCKills) {
  LaunchOptions options = shell_job(2, "trap '' INT; echo pid=$$; while true; do sleep 0.1; done");
  options.grace = Seconds(100);
  Launched job(options);
  ASSERT_TRUE(job.wait_for_output("pid=", 2));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(Seconds(3)), -1) << "the first one is only passed on";
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(Seconds(60)), 130);
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

TEST(Signals, TheGraceEnds) {
  LaunchOptions options = shell_job(1, "trap '' INT; echo pid=$$; while true; do sleep 0.1; done");
  options.grace = Seconds(0.3);
  Launched job(options);
  ASSERT_TRUE(job.wait_for_output("pid="));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(Seconds(60)), 130);
}

TEST(Secrets, TheKeyIsInNoCommandLineAndNoEnvironment) {
  Launched job(member_job(2, {"find-key"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out_lines(), ElementsAre("[0] scan works: true, raw: 0, hex: 0",
                                           "[1] scan works: true, raw: 0, hex: 0"));
}

}  // namespace
}  // namespace asup::launch
