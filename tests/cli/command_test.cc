// The asup program from the outside: what it prints and the status it ends with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "asup/base/version.h"
#include "tests/cli/program.h"

namespace asup::cli {
namespace {

using launch::all_gone;
using launch::numbers_after;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

TEST(Asup, SaysWhatItIsMadeOf) {
  const Ended ended = run({"--version"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, AllOf(StartsWith(std::string("asup ") + kVersion + "\ntorch 2."),
                                HasSubstr("kernels use "), HasSubstr("built with ")));
  EXPECT_EQ(run({"version"}).text, ended.text);
}

TEST(Asup, Helps) {
  const Ended all = run({"--help"});
  EXPECT_EQ(all.status, 0);
  EXPECT_THAT(all.text, AllOf(HasSubstr("Usage: asup COMMAND"), HasSubstr("run "),
                              HasSubstr("train "), HasSubstr("bench ")));
  const Ended one = run({"run", "--help"});
  EXPECT_EQ(one.status, 0);
  EXPECT_THAT(one.text, AllOf(HasSubstr("Usage: asup run"), HasSubstr("--hosts a,b"),
                              HasSubstr("examples:"), HasSubstr("Exit status")));
  EXPECT_EQ(run({}).status, 2);
}

TEST(Asup, ADryRunParsesAndRunsNothing) {
  const Ended fine = run({"--dry-run", "run", "-n", "2", "--", "echo", "started"});
  EXPECT_EQ(fine.status, 0) << fine.last_error;
  EXPECT_EQ(fine.text, "");
  const Ended together = run({"--dry-run", "train", "--pace", "ssp"});
  EXPECT_EQ(together.status, 2);
  EXPECT_THAT(together.last_error, StartsWith("asup train: pace = ssp has no effect"));
  const Ended sizes = run({"--dry-run", "bench", "collective", "--sizes", "6Q"});
  EXPECT_EQ(sizes.status, 2);
  EXPECT_THAT(run({"--help"}).text, Not(HasSubstr("--dry-run")));
}

TEST(Asup, SuggestsTheNearestName) {
  const Ended command = run({"rnu"});
  EXPECT_EQ(command.status, 2);
  EXPECT_EQ(command.last_error, "asup: unknown command 'rnu'; did you mean 'run'?");
  const Ended flag = run({"run", "--hots", "alpha", "--", "true"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_EQ(flag.last_error, "asup run: unknown flag --hots; did you mean '--hosts'?");
  const Ended train = run({"train", "--wrokers", "2"});
  EXPECT_EQ(train.status, 2);
  EXPECT_THAT(train.last_error, HasSubstr("did you mean '--workers'?"));
}

TEST(AsupRun, RefusesBadInput) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run", "-n", "2"}, "asup run: no program to run: asup run -n 4 -- ./program"},
      {{"run", "-n"}, "asup run: --ranks needs a value"},
      {{"run", "-n", "0", "--", "true"}, "asup run: --ranks: must be between 1 and 1000000, not 0"},
      {{"run", "-n", "2", "x", "--", "true"},
       "asup run: 'x' stands before --: flags for asup come before it, the program after it"},
      {{"run", "--", "./no/such"}, "asup run: cannot start ./no/such: No such file or directory"},
      {{"run", "--interface", "eth77", "--", "true"}, "asup run: interface 'eth77' is not on .*"},
      {{"run", "--hosts", "alpha:0", "--", "true"}, "asup run: --hosts: 'alpha:0': .*"},
  };
  for (const auto& [words, message] : cases) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << message;
    EXPECT_THAT(ended.last_error, MatchesRegex(message));
  }
}

TEST(AsupRun, RunsAProgramWithOrWithoutDashes) {
  const Ended with = run({"run", "-n", "2", "--", "sh", "-c", "echo got $0 $1", "-n", "--x"});
  EXPECT_EQ(with.status, 0);
  EXPECT_THAT(with.out, ElementsAre("[0] got -n --x", "[1] got -n --x"));
  const Ended without = run({"run", "-n", "2", "--no-prefix", "echo", "--y"});
  EXPECT_EQ(without.status, 0);
  EXPECT_THAT(without.out, ElementsAre("--y", "--y"));
  const Ended alone = run({"run", "echo", "alone"});
  EXPECT_THAT(alone.out, ElementsAre("alone"));
}

TEST(AsupRun, SaysWhoFailedInItsLastLine) {
  const Ended ended = run({"run", "-n", "2", "--", "sh", "-c", "exit $ASUP_RANK"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.last_error, MatchesRegex("asup run: rank 1 .pid .* exited with status 1"));
}

TEST(AsupRun, RefusesVariablesThatItDoesNotKnow) {
  const Ended given = run({"run", "--env", "ASUP_SNYC=local", "--", "true"});
  EXPECT_EQ(given.status, 2);
  EXPECT_THAT(given.last_error,
              AllOf(HasSubstr("ASUP_SNYC"), HasSubstr("did you mean 'ASUP_SYNC'?")));
  ::setenv("ASUP_LINX", "shm", 1);
  const Ended inherited = run({"run", "--", "true"});
  ::unsetenv("ASUP_LINX");
  EXPECT_EQ(inherited.status, 2);
  EXPECT_THAT(inherited.last_error, HasSubstr("did you mean 'ASUP_LINKS'?"));
  ::setenv("ASUP_SYNC", "local", 1);
  const Ended trained = run({"train", "--steps", "1"});
  ::unsetenv("ASUP_SYNC");
  EXPECT_EQ(trained.status, 2);
  EXPECT_THAT(trained.last_error, HasSubstr("ASUP_SYNC is for programs of one's own"));
}

TEST(AsupRun, EndsWithCtrlC) {
  const auto program = start({"run", "-n", "2", "--", "sh", "-c", "echo pid=$$; sleep 1000"});
  ASSERT_TRUE(program->wait_for_output("pid=", 2));
  program->signal(SIGINT);
  EXPECT_EQ(program->wait(), 130);
  EXPECT_EQ(program->last_line(), "asup run: ended by SIGINT (Ctrl-C)");
  EXPECT_TRUE(all_gone(numbers_after(program->out(), "pid="), Seconds(0)));
}

TEST(AsupRun, StartsServersBesideTheRanks) {
  const Ended ended = run({"run", "-n", "2", "--servers", "1", "--", program_path(), "bench",
                           "collective", "--sizes", "1K", "--quick"});
  EXPECT_EQ(ended.status, 0) << ended.text << ended.last_error;
  EXPECT_THAT(ended.text, HasSubstr("[0] "));
  const Ended wrong = run({"run", "--servers", "-1", "--", "true"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.last_error, HasSubstr("--servers: must be between 0 and"));
}

TEST(AsupServer, IsNotForPeople) {
  const Ended ended = run({"server"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.last_error, HasSubstr("is started by asup run --servers"));
  EXPECT_THAT(run({"--help"}).text, Not(HasSubstr("server")));
}

TEST(AsupTrain, RefusesServersThatDoNotFit) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train", "--servers", "1"}, "servers = 1 has no effect: sync = allreduce has none"},
      {{"train", "--sync", "server", "--servers", "0"},
       "keeps the parameters on servers, and there are none: leave servers out for one"},
      {{"train", "--sync", "server", "--pace", "fast"},
       "'fast' is not one of bsp, ssp, asp, kasync, adaptive"},
      {{"train", "--sync", "asup", "--pace", "bsp"},
       "pace = bsp has no effect: sync = asup has no such setting"},
      {{"train", "--pace", "ssp"}, "pace = ssp has no effect"},
      {{"train", "--sync", "server", "--servers", "-1"}, "allowed: 0 … 4096"},
  };
  for (const auto& [words, message] : cases) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << message;
    EXPECT_THAT(ended.last_error, HasSubstr(message));
  }
}

TEST(AsupTrain, InsideAJobTheLauncherCountsTheServers) {
  const auto complaint = [](std::vector<std::string> launcher, std::vector<std::string> flags) {
    launcher.insert(launcher.begin(), {"run", "-n", "2"});
    launcher.insert(launcher.end(), {"--", program_path(), "train"});
    launcher.insert(launcher.end(), flags.begin(), flags.end());
    const auto program = start(launcher);
    EXPECT_EQ(program->wait(), 2);
    return program->err();
  };
  EXPECT_THAT(complaint({"--servers", "1"}, {"--data", "synthetic"}),
              HasSubstr("servers = 1 has no effect: sync = allreduce has none"));
  EXPECT_THAT(complaint({"--servers", "1"}, {"--sync", "server", "--servers", "2"}),
              HasSubstr("servers = 2, but asup run started 2 workers and 1 server"));
  EXPECT_THAT(complaint({}, {"--sync", "server"}),
              HasSubstr("there are none: start the job with asup run --servers N"));
}

TEST(AsupAgent, IsNotForPeople) { EXPECT_THAT(run({"--help"}).text, Not(HasSubstr("agent"))); }

}  // namespace
}  // namespace asup::cli
