#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "asup/launch/host_job.h"
#include "asup/launch/launch.h"
#include "launched.h"
#include "member_job.h"

namespace asup::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

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
class OtherHosts : public ::testing::Test {
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

TEST_F(OtherHosts, TellWhyARankFailed) {
  Launched job(with_hosts(member_job(0, {"fail", "1", "bad-input"}), run_here_));
  EXPECT_EQ(job.wait(), 2) << job.err();
  EXPECT_THAT(job.last_line(), MatchesRegex("rank 1 .* failed: there is no data in 'x'"));
}

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
      with_hosts(shell_job(0, "echo pid=$$; [ $ASUP_RANK = 1 ] && exit 4; sleep 1000"), run_here_));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_THAT(job.last_line(),
              AllOf(StartsWith("rank 1 (pid "), HasSubstr("exited with status 4")));
  EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(0)));
}

TEST_F(OtherHosts, AHostOutOfReachIsNamedInSshsOwnWords) {
  Launched job(with_hosts(shell_job(0, "sleep 1000"),
                          "case \"$*\" in *beta*) echo 'ssh: connect to host beta port 22: "
                          "Connection refused' >&2; exit 255;; esac\n" +
                              run_here_));
  const auto start = Clock::now();
  EXPECT_EQ(job.wait(), 1);
  EXPECT_LT(seconds_since(start), 60.0);
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
    EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(60)));
  }
  std::filesystem::remove(agent);
}

TEST_F(OtherHosts, AServerOnALostHostIsNamed) {
  const std::string agent = script_ + ".pid";
  LaunchOptions options =
      with_hosts(member_job(0, {"outlive", "0", "0"}),
                 "case \"$*\" in *beta*) echo $$ > " + agent + ";; esac\n" + run_here_);
  options.servers = 2;  // one on each
  for (const OnLoss on_loss : {OnLoss::go_on, OnLoss::end}) {
    options.on_loss = on_loss;
    Launched job(options);
    ASSERT_TRUE(job.wait_for_output("pid=", 4)) << job.err();
    int pid = 0;
    std::ifstream(agent) >> pid;
    ASSERT_GT(pid, 1);
    kill(pid, SIGKILL);
    EXPECT_EQ(job.wait(), 1) << job.err();
    EXPECT_THAT(job.last_line(), AllOf(StartsWith("host beta is no longer in reach: "),
                                       EndsWith("; with it went rank 1 and server 1")));
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
  const auto options = with_hosts(shell_job(0, "echo pid=$$; exec sleep 1000"), run_here_);
  for (const int number : {SIGINT, SIGKILL}) {
    Launched job(options);
    ASSERT_TRUE(job.wait_for_output("pid=", 2)) << job.err();
    job.signal(number);
    EXPECT_EQ(job.wait(), 128 + number);
    EXPECT_TRUE(all_gone(numbers_after(job.out(), "pid="), Seconds(60)));
  }
}

}  // namespace
}  // namespace asup::launch
