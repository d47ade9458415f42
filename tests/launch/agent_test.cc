#include "asup/launch/agent.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "asup/base/error.h"
#include "asup/launch/agent_protocol.h"
#include "asup/launch/host_job.h"
#include "launched.h"

namespace asup::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// An agent with a pipe for its input.
class AgentTest : public ::testing::Test {
 protected:
  AgentTest() {
    int fds[2];
    check(pipe2(fds, O_CLOEXEC) == 0, "pipe");
    const Fd reader(fds[0]);
    to_agent_ = Fd(fds[1]);
    agent_ = std::make_unique<Launched>(
        [this] {
          to_agent_.reset();
          return run_agent(STDIN_FILENO, STDOUT_FILENO);
        },
        reader.get());
  }

  void say(const std::string& line) {
    ASSERT_EQ(write(to_agent_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  void start(const std::string& script) {
    HostJob job;
    job.size = 4;
    job.first_rank = 2;
    job.count = 2;
    job.coordinator = "127.0.0.1:1";
    job.program = {"sh", "-c", script};
    job.directory = "/usr";
    job.grace = Seconds(1);
    say(to_json(job) + "\n");
  }

  Fd to_agent_;
  std::unique_ptr<Launched> agent_;
};

TEST_F(AgentTest, StartsItsRanksAndTellsHowTheyEnd) {
  start("echo $ASUP_RANK in $PWD; exit $ASUP_RANK");
  EXPECT_EQ(agent_->wait(), 0);
  const std::string out = agent_->out();
  EXPECT_THAT(out, StartsWith("{\"agent\":5,\"host\":"));
  for (const char* line : {"\"started\":2", "\"started\":3",
                           "{\"data\":\"2 in /usr\\n\",\"output\":2,\"stream\":\"out\"}",
                           "\"ended\":2", "\"status\":512", "\"ended\":3", "\"status\":768"})
    EXPECT_THAT(out, HasSubstr(line));
}

TEST_F(AgentTest, PassesSignalsOn) {
  start("trap 'echo got it; exit 0' USR1; echo ready; while true; do sleep 0.1; done");
  ASSERT_TRUE(agent_->wait_for_output("ready", 2));
  say(signal_line(SIGUSR1));
  EXPECT_EQ(agent_->wait(), 0);
  EXPECT_THAT(agent_->out(), HasSubstr("got it"));
}

TEST_F(AgentTest, KillsOneRank) {
  start("echo ready; while true; do sleep 0.1; done");
  ASSERT_TRUE(agent_->wait_for_output("ready", 2));
  say(kill_line(3));
  ASSERT_TRUE(agent_->wait_for_output("\"ended\":3", 1));
  EXPECT_THAT(agent_->out(), Not(HasSubstr("\"ended\":2")));
  say(kill_line(2));
  EXPECT_EQ(agent_->wait(), 0);
}

TEST_F(AgentTest, EndsItsRanksWhenItsInputEnds) {
  start("trap '' TERM; echo pid=$$; while true; do sleep 0.1; done");
  ASSERT_TRUE(agent_->wait_for_output("pid=", 2));
  const auto pids = numbers_after(agent_->out(), "pid=");
  to_agent_.reset();
  EXPECT_EQ(agent_->wait(Seconds(60)), 0);
  EXPECT_TRUE(all_gone(pids, Seconds(0)));
}

TEST_F(AgentTest, EndsItsRanksWhenItIsKilled) {
  start("echo pid=$$; while true; do sleep 0.1; done");
  ASSERT_TRUE(agent_->wait_for_output("pid=", 2));
  agent_->signal(SIGKILL);
  EXPECT_TRUE(all_gone(numbers_after(agent_->out(), "pid="), Seconds(60)));
}

TEST_F(AgentTest, RefusesNonsense) {
  say("this is no job\n");
  EXPECT_EQ(agent_->wait(), 1);
  EXPECT_THAT(agent_->out(), HasSubstr("{\"failed\":\"the job description cannot be read"));
}

TEST_F(AgentTest, EndsWhenNobodyTellsItAnything) {
  to_agent_.reset();
  EXPECT_EQ(agent_->wait(Seconds(60)), 0);
}

}  // namespace
}  // namespace asup::launch
