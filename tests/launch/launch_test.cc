#include "asup/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "asup/base/error.h"
#include "asup/base/thread.h"
#include "asup/launch/host_job.h"
#include "asup/net/membership/address.h"
#include "launched.h"

namespace asup::launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

LaunchOptions member_job(int ranks, std::vector<std::string> arguments) {
  LaunchOptions options;
  options.ranks = ranks;
  options.program = {MEMBER_PROGRAM};
  for (auto& argument : arguments) options.program.push_back(std::move(argument));
  return options;
}

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

LaunchOptions with_servers(LaunchOptions options, int servers) {
  options.servers = servers;
  options.server_program = {MEMBER_PROGRAM, "server"};
  return options;
}

TEST(Servers, JoinBesideTheRanksAndEndWithTheLast) {
  for (const char* links : {"shm", "tcp"}) {
    LaunchOptions options = with_servers(member_job(2, {"work"}), 2);
    options.links = links;
    Launched job(options);
    EXPECT_EQ(job.wait(), 0) << job.err();
    EXPECT_THAT(job.out_lines(),
                ElementsAre("[0] worker 0 of 2, servers: 2", "[1] worker 1 of 2, servers: 2",
                            "[server 0] all have left", StartsWith("[server 0] serves 2, pid="),
                            "[server 1] all have left", StartsWith("[server 1] serves 2, pid=")));
  }
}

TEST(Servers, AreNoneOfTheRanksThatScriptsSee) {
  LaunchOptions options = shell_job(
      2,
      "echo $ASUP_ROLE $ASUP_RANK of $ASUP_SIZE, local of $ASUP_LOCAL_SIZE, $ASUP_SERVERS servers");
  options.servers = 1;
  options.server_program = {"sh", "-c",
                            "echo $ASUP_ROLE $ASUP_SERVER_RANK of $ASUP_SERVERS$ASUP_RANK"};
  Launched job(options);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out_lines(),
              ElementsAre("[0] worker 0 of 2, local of 2, 1 servers",
                          "[1] worker 1 of 2, local of 2, 1 servers", "[server 0] server 0 of 1"));
}

TEST(Servers, WriteIntoFilesOfTheirOwn) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("asup_servers_test." + std::to_string(getpid()));
  LaunchOptions options = with_servers(member_job(1, {"work"}), 1);
  options.output_dir = folder;
  Launched job(options);
  EXPECT_EQ(job.wait(), 0) << job.err();
  std::ifstream file(folder / "server_0.log");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("all have left\n"));
  EXPECT_TRUE(std::filesystem::exists(folder / "rank_0.log"));
  std::filesystem::remove_all(folder);
}

TEST(Servers, OneThatNeverJoinsIsNamed) {
  LaunchOptions options = member_job(2, {"work"});
  options.servers = 1;
  options.server_program = {"sh", "-c", "sleep 100"};
  options.join_timeout = Seconds(2);  // also what the others have to reach the coordinator
  Launched job(options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.last_line(), "server 0 never joined within 2 s; ranks 0 and 1 did");
}

TEST(Servers, AKilledOneEndsTheJob) {
  LaunchOptions options = shell_job(2, "echo pid=$$; exec sleep 100");
  options.servers = 1;
  options.server_program = {"sh", "-c", "kill -9 $$"};
  Launched killed(options);
  EXPECT_EQ(killed.wait(), 1);
  EXPECT_THAT(killed.last_line(),
              AllOf(StartsWith("server 0 (pid "), HasSubstr("was killed by signal 9 (SIGKILL)")));
  EXPECT_TRUE(all_gone(numbers_after(killed.out(), "pid="), Seconds(0)));
}

TEST(Servers, OneThatStaysIsKilledAfterTheGrace) {
  LaunchOptions options = shell_job(2, "true");
  options.servers = 1;
  options.server_program = {"sh", "-c", "trap '' TERM; echo pid=$$; exec sleep 100"};
  options.grace = Seconds(0.3);
  Launched job(options);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.last_line(),
            "asup run: server 0 did not end within 0.3 s of the last worker, and is killed");
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

// Kills the process that said "joined" or "serves" behind this prefix, once all have said so.
void kill_one(const Launched& job, const std::string& prefix, std::size_t all) {
  ASSERT_TRUE(job.wait_for_output("pid=", all)) << job.err();
  const auto line = job.out().find(prefix);
  ASSERT_NE(line, std::string::npos);
  const auto pids = numbers_after(job.out().substr(line), "pid=");
  ASSERT_FALSE(pids.empty());
  kill(pids.front(), SIGKILL);
}

LaunchOptions going_on(LaunchOptions options) {
  options.on_loss = OnLoss::go_on;
  return options;
}

TEST(GoingOn, AKilledWorkerIsToldOfAndTheOthersFinish) {
  Launched job(going_on(with_servers(member_job(3, {"outlive", "1", "0"}), 2)));
  kill_one(job, "[1] joined", 5);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.err(), AllOf(HasSubstr("asup run: rank 1 (pid "),
                               HasSubstr("was killed by signal 9 (SIGKILL)"),
                               HasSubstr("; the others go on\n")));
  EXPECT_THAT(job.out(), AllOf(HasSubstr("[0] outlived rank 1"), HasSubstr("[2] outlived rank 1"),
                               HasSubstr("[server 1] all have left")));
  EXPECT_EQ(job.last_line(), "done, but 1 of 3 workers was lost: rank 1");
}

TEST(GoingOn, AKilledServerEndsTheJob) {
  Launched job(going_on(with_servers(member_job(2, {"outlive", "3", "1"}), 2)));
  kill_one(job, "[server 1] serves", 4);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(),
              AllOf(StartsWith("server 1 (pid "), HasSubstr("was killed by signal 9 (SIGKILL)")));
}

TEST(GoingOn, ALostServerIsToBlameThoughAWorkerWasLostBefore) {
  Launched job(going_on(with_servers(member_job(3, {"outlive", "3", "1"}), 1)));
  kill_one(job, "[1] joined", 4);
  ASSERT_TRUE(job.wait_for_error("the others go on"));
  kill_one(job, "[server 0] serves", 4);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(), StartsWith("server 0 (pid "));
}

TEST(GoingOn, WithoutAnyWorkerTheJobHasFailed) {
  Launched job(going_on(with_servers(member_job(2, {"outlive", "0", "7"}), 1)));
  kill_one(job, "[0] joined", 3);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(),
              AllOf(StartsWith("no worker is left; rank 0 (pid "), HasSubstr("signal 9")));
}

TEST(GoingOn, BeginsWhenAllHaveJoined) {
  Launched job(going_on(member_job(2, {"early", "1"})));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(), HasSubstr("exited with status 0 before it joined"));
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
  Launched job(shell_job(3, "echo pid=$$; [ $ASUP_RANK = 1 ] && sleep 0.3 && exit 3; sleep 100"));
  const auto start = Clock::now();
  EXPECT_EQ(job.wait(), 1);
  EXPECT_LT(seconds_since(start), 5.0);
  const auto pids = numbers_after(job.out(), "[1] pid=");
  ASSERT_EQ(pids.size(), 1u);
  EXPECT_EQ(job.last_line(), fmt::format("rank 1 (pid {} on {}) exited with status 3", pids[0],
                                         net::this_hostname()));
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

TEST(Failure, ASignalIsNamed) {
  Launched job(shell_job(2, "[ $ASUP_RANK = 0 ] && kill -SEGV $$; sleep 100"));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(), AllOf(StartsWith("rank 0 (pid "), HasSubstr("signal 11 (SIGSEGV)")));
}

// The victim is to blame, not the survivors, which fail because of it and have time to say so.
TEST(Failure, SurvivorsSayWhomTheyLost) {
  for (const char* how : {"9", "exit"}) {
    Launched job(member_job(3, {"die", "1", how}));
    const auto start = Clock::now();
    EXPECT_EQ(job.wait(), 1);
    EXPECT_LT(seconds_since(start), 5.0);
    EXPECT_THAT(job.out(), AllOf(HasSubstr("[0] lost rank 1 (pid "), HasSubstr("[2] lost rank 1")));
    EXPECT_THAT(job.last_line(), StartsWith("rank 1 (pid ")) << how;
  }
}

TEST(Failure, ARankThatNeverJoinsIsNamed) {
  LaunchOptions options = member_job(3, {"never", "2"});
  options.join_timeout = Seconds(2);  // also what the others have to reach the coordinator
  Launched job(options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.last_line(), "rank 2 never joined within 2 s; ranks 0 and 1 did");
}

TEST(Failure, ARankThatEndsInsteadOfJoiningIsNamedAtOnce) {
  Launched job(member_job(2, {"early", "1"}));
  const auto start = Clock::now();
  EXPECT_EQ(job.wait(), 1);
  EXPECT_LT(seconds_since(start), 5.0);
  EXPECT_THAT(job.last_line(), AllOf(StartsWith("rank 1 (pid "),
                                     HasSubstr("exited with status 0 before it joined")));
}

TEST(Failure, WhoDoesNotHearSigtermIsKilled) {
  LaunchOptions options =
      shell_job(2,
                "trap '' TERM; echo pid=$$; [ $ASUP_RANK = 1 ] && exit 3; sleep 100 & wait; "
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
  EXPECT_TRUE(all_gone(pids, Seconds(5)));
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

TEST(Signals, OtherSignalsGiveTheirOwnStatus) {
  for (const int number : {SIGTERM, SIGHUP}) {
    Launched job(shell_job(2, "echo pid=$$; exec sleep 100"));
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
  EXPECT_EQ(job.wait(Seconds(0.5)), -1) << "the first one is only passed on";
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(Seconds(5)), 130);
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

TEST(Signals, TheGraceEnds) {
  LaunchOptions options = shell_job(1, "trap '' INT; echo pid=$$; while true; do sleep 0.1; done");
  options.grace = Seconds(0.3);
  Launched job(options);
  ASSERT_TRUE(job.wait_for_output("pid="));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(Seconds(5)), 130);
}

TEST(Secrets, TheKeyIsInNoCommandLineAndNoEnvironment) {
  Launched job(member_job(2, {"find-key"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out_lines(), ElementsAre("[0] scan works: true, raw: 0, hex: 0",
                                           "[1] scan works: true, raw: 0, hex: 0"));
}

TEST(Hosts, LocalhostNeedsNoSsh) {
  LaunchOptions options = shell_job(0, "echo rank $ASUP_RANK");
  options.hosts = parse_hosts("localhost:2");
  options.ssh = "/no/such/ssh";
  Launched job(options);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out_lines(), ElementsAre("[0] rank 0", "[1] rank 1"));
}

// A stand-in for ssh that runs the command on this host: the agent, its protocol and the launcher's
// side are real. tests/launch/ssh_hosts_test.sh does the same over real ssh.
class OtherHosts : public testing::Test {
 protected:
  LaunchOptions with_hosts(LaunchOptions options, const std::string& body) {
    std::ofstream(script_) << "#!/bin/sh\n" << body;
    chmod(script_.c_str(), 0700);
    options.ranks = 0;
    options.hosts = parse_hosts("alpha,beta");
    options.ssh = script_;
    options.interface = "lo";
    options.remote_asup = MEMBER_PROGRAM;
    return options;
  }
  ~OtherHosts() override { std::filesystem::remove(script_); }

  const std::string script_ =
      std::filesystem::temp_directory_path() / ("asup_fake_ssh." + std::to_string(getpid()));
  // The last argument is the command for the other host's shell.
  const std::string run_here_ = "for word; do command=$word; done\nexec sh -c \"$command\"\n";
};

TEST_F(OtherHosts, RunRanksThroughAgents) {
  Launched job(with_hosts(member_job(0, {"join"}), "echo Welcome\n" + run_here_));
  EXPECT_EQ(job.wait(), 0) << job.err();
  const auto lines = job.out_lines();
  ASSERT_EQ(lines.size(), 2u) << job.out();
  EXPECT_THAT(lines[1], AllOf(StartsWith("[1] rank 1 (pid "), HasSubstr(" of 2, id 2")));
}

TEST_F(OtherHosts, ServersAreSpreadOverThem) {
  LaunchOptions options = with_hosts(
      member_job(0, {"work"}), "case \"$*\" in *beta*) export HOST_NAME=beta;; esac\n" + run_here_);
  options.servers = 2;
  options.server_program = {"sh", "-c", "echo on ${HOST_NAME:-alpha}; exec \"$0\" server",
                            MEMBER_PROGRAM};
  Launched job(options);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(),
              AllOf(HasSubstr("[server 0] on alpha\n"), HasSubstr("[server 1] on beta\n"),
                    HasSubstr("[1] worker 1 of 2, servers: 2\n")));
}

TEST_F(OtherHosts, StartTheirOwnAsupAsServer) {
  LaunchOptions options = with_hosts(member_job(0, {"work"}), run_here_);
  options.servers = 1;
  Launched job(options);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[server 0] all have left\n"));
}

TEST_F(OtherHosts, ABadEndThereIsNamed) {
  Launched job(
      with_hosts(shell_job(0, "echo pid=$$; [ $ASUP_RANK = 1 ] && exit 4; sleep 100"), run_here_));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(),
              AllOf(StartsWith("rank 1 (pid "), HasSubstr("exited with status 4")));
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

TEST_F(OtherHosts, AHostOutOfReachIsNamedInSshsOwnWords) {
  Launched job(with_hosts(shell_job(0, "sleep 100"),
                          "case \"$*\" in *beta*) echo 'ssh: connect to host beta port 22: "
                          "Connection refused' >&2; exit 255;; esac\n" +
                              run_here_));
  const auto start = Clock::now();
  EXPECT_EQ(job.wait(), 1);
  EXPECT_LT(seconds_since(start), 5.0);
  EXPECT_EQ(
      job.last_line(),
      "host beta could not be reached: ssh: connect to host beta port 22: Connection refused");
}

// The fake ssh of beta is killed, and with it the agent, as if the host were gone.
TEST_F(OtherHosts, AHostThatIsLostMayBeDoneWithout) {
  const std::string agent = script_ + ".pid";
  LaunchOptions options =
      with_hosts(member_job(0, {"outlive", "1", "0"}),
                 "case \"$*\" in *beta*) echo $$ > " + agent + ";; esac\n" + run_here_);
  options.servers = 1;  // on alpha
  for (const OnLoss on_loss : {OnLoss::go_on, OnLoss::end}) {
    options.on_loss = on_loss;
    Launched job(options);
    ASSERT_TRUE(job.wait_for_output("pid=", 3)) << job.err();
    int pid = 0;
    std::ifstream(agent) >> pid;
    ASSERT_GT(pid, 1);
    kill(pid, SIGKILL);
    const bool goes_on = on_loss == OnLoss::go_on;
    EXPECT_EQ(job.wait(), goes_on ? 0 : 1) << job.err();
    EXPECT_THAT(job.last_line(), StartsWith(goes_on ? "done, but 1 of 2 workers was lost: rank 1"
                                                    : "host beta is no longer in reach"));
    EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(5)));
  }
  std::filesystem::remove(agent);
}

TEST_F(OtherHosts, AProgramThatIsNotThereIsNamedWithItsHost) {
  LaunchOptions options;
  options.program = {"./no/such/program"};
  Launched job(with_hosts(options, run_here_));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(),
              MatchesRegex("host (alpha|beta) cannot start ./no/such/program: No such file.*"));
}

TEST_F(OtherHosts, CtrlCAndAKilledLauncherReachThem) {
  const auto options = with_hosts(shell_job(0, "echo pid=$$; exec sleep 100"), run_here_);
  for (const int number : {SIGINT, SIGKILL}) {
    Launched job(options);
    ASSERT_TRUE(job.wait_for_output("pid=", 2)) << job.err();
    job.signal(number);
    EXPECT_EQ(job.wait(), 128 + number);
    EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(5)));
  }
}

}  // namespace
}  // namespace asup::launch
