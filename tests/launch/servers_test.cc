#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "asup/launch/launch.h"
#include "launched.h"
#include "member_job.h"

namespace asup::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  options.server_program = {"sh", "-c", "sleep 1000"};
  options.join_timeout = Seconds(10);  // also what the others have to reach the coordinator
  Launched job(options);
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.last_line(), "server 0 never joined within 10 s; ranks 0 and 1 did");
}

TEST(Servers, AKilledOneEndsTheJob) {
  LaunchOptions options = shell_job(2, "echo pid=$$; exec sleep 1000");
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
  options.server_program = {"sh", "-c", "trap '' TERM; echo pid=$$; exec sleep 1000"};
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

}  // namespace
}  // namespace asup::launch
