// The launcher's small parts that only turn text into text.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "asup/base/error.h"
#include "asup/base/thread.h"
#include "asup/launch/agent_protocol.h"
#include "asup/launch/host_job.h"
#include "asup/launch/lines.h"
#include "asup/launch/process.h"
#include "asup/launch/rank_end.h"
#include "asup/launch/remote_ranks.h"

namespace asup::launch {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Lines, AreWholeHoweverTheyArrive) {
  Lines lines;
  EXPECT_THAT(lines.feed("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(lines.feed("o\n\nthree"), ElementsAre("two", ""));
  EXPECT_THAT(lines.finish(), ElementsAre("three"));
  EXPECT_THAT(lines.finish(), IsEmpty());
}

TEST(Lines, CarriageReturnsOverwrite) {
  Lines lines;
  EXPECT_THAT(lines.feed("dos\r\n"), ElementsAre("dos"));
  EXPECT_THAT(lines.feed(" 10%\r 50%\r100%\ndone\n"), ElementsAre("100%", "done"));
}

TEST(Lines, EndlessOnesAreCut) {
  Lines lines;
  EXPECT_EQ(lines.feed(std::string(100'000, 'x')).size(), 1u);
}

RankEnd end_of(int rank, int status, bool stopped = false) {
  return {rank, 100 + rank, "alpha", status, stopped};
}
RankEnd end_of_server(int server, int rank, int status) {
  return {rank, 100 + rank, "alpha", status, false, server};
}
constexpr int kExit1 = 1 << 8, kExit3 = 3 << 8;

TEST(RankEnd, IsDescribed) {
  EXPECT_EQ(end_of(1, 0).who(), "rank 1 (pid 101 on alpha)");
  EXPECT_EQ(end_of_server(0, 4, 0).who(), "server 0 (pid 104 on alpha)");
  EXPECT_EQ(end_of(1, kExit3).how(), "exited with status 3");
  EXPECT_THAT(end_of(1, SIGKILL).how(),
              AllOf(HasSubstr("signal 9 (SIGKILL)"), HasSubstr("out of memory")));
  EXPECT_EQ(end_of(1, SIGSEGV).how(), "was killed by signal 11 (SIGSEGV)");
}

RankEnd with_note(RankEnd end, net::FailureNote::Kind kind, std::string text) {
  end.note = {kind, std::move(text)};
  return end;
}
using Kind = net::FailureNote::Kind;

TEST(RankEnd, TellsItsOwnWords) {
  EXPECT_EQ(end_of(1, kExit3).describe(), "rank 1 (pid 101 on alpha) exited with status 3");
  EXPECT_EQ(with_note(end_of(1, kExit1), Kind::own, "no\nsample 7").describe(),
            "rank 1 (pid 101 on alpha) failed: no sample 7");
  EXPECT_EQ(with_note(end_of(1, kExit1), Kind::others, "rank 2 was lost").describe(),
            "rank 2 was lost");
}

TEST(Culprit, NotAVictimWhereThereIsAnother) {
  const auto victim = with_note(end_of(0, kExit1), Kind::others, "rank 1 was lost");
  EXPECT_EQ(culprit({victim, end_of(1, SIGKILL)}, {0, 1})->rank, 1);
  EXPECT_EQ(culprit({victim, with_note(end_of(1, kExit1), Kind::own, "mine")}, {0})->rank, 1);
  EXPECT_EQ(culprit({victim, end_of(1, 0)}, {})->rank, 0);
}

TEST(Culprit, NobodyWhereAllWentWell) {
  EXPECT_FALSE(culprit({end_of(0, 0), end_of(1, 0)}, {}));
  EXPECT_FALSE(culprit({end_of(0, SIGTERM, true)}, {}));
}

TEST(Culprit, TheFirstThatFailed) {
  EXPECT_EQ(culprit({end_of(0, 0), end_of(2, kExit3), end_of(1, kExit1)}, {})->rank, 2);
}

TEST(Culprit, ASignalBeforeASurvivorsComplaint) {
  EXPECT_EQ(culprit({end_of(0, kExit1), end_of(1, SIGKILL)}, {})->rank, 1);
}

TEST(Culprit, TheOneTheCoordinatorMissedFirst) {
  EXPECT_EQ(culprit({end_of(0, SIGABRT), end_of(1, kExit3)}, {1})->rank, 1);
  EXPECT_EQ(culprit({end_of(0, kExit1), end_of(1, 0)}, {1})->rank, 0) << "1 ended well after all";
}

TEST(AgentProtocol, CarriesANote) {
  const auto end = with_note(end_of(3, kExit1), Kind::bad_input, "line\n\"two\"");
  EXPECT_EQ(parse_agent_message(ended_line(end))->note, end.note);
  EXPECT_FALSE(parse_agent_message(ended_line(end_of(3, kExit1)))->note);
}

TEST(Culprit, NotWhomWeStopped) {
  EXPECT_EQ(culprit({end_of(0, SIGTERM, true), end_of(1, kExit3)}, {0})->rank, 1);
}

TEST(Culprit, NotWhomTheJobDidWithout) {
  RankEnd excused = end_of(0, SIGKILL);
  excused.excused = true;
  EXPECT_FALSE(culprit({excused}, {0}));
  EXPECT_EQ(culprit({excused, end_of(2, kExit1), end_of_server(0, 3, kExit3)}, {0, 3})->rank, 3);
}

HostJob some_job() {
  HostJob job;
  job.size = 8;
  job.servers = 3;
  job.own_servers = {0, 2};
  job.first_rank = 4;
  job.count = 2;
  job.coordinator = "10.0.0.1:5000";
  job.key = net::random_key();
  job.program = {"./program", "--name", "a b 'c' \"d\" é"};
  job.server_program = {"/opt/asup", "server"};
  job.directory = "/home/me";
  job.environment = {"A=1", "B=x=y"};
  job.grace = Seconds(2.5);
  return job;
}

TEST(HostJob, TravelsWhole) {
  const HostJob job = some_job(), copy = parse_host_job(to_json(job));
  EXPECT_EQ(copy.size, job.size);
  EXPECT_EQ(copy.servers, job.servers);
  EXPECT_EQ(copy.own_servers, job.own_servers);
  EXPECT_EQ(copy.server_program, job.server_program);
  EXPECT_EQ(copy.first_rank, job.first_rank);
  EXPECT_EQ(copy.count, job.count);
  EXPECT_EQ(copy.coordinator, job.coordinator);
  EXPECT_EQ(copy.key, job.key);
  EXPECT_EQ(copy.program, job.program);
  EXPECT_EQ(copy.directory, job.directory);
  EXPECT_EQ(copy.environment, job.environment);
  EXPECT_EQ(copy.grace, job.grace);
}

TEST(HostJob, WrongOnesAreRefused) {
  HostJob outside = some_job();
  outside.first_rank = 7;
  EXPECT_THROW(parse_host_job(to_json(outside)), BadInput);
  HostJob no_such_server = some_job();
  no_such_server.own_servers = {3};
  EXPECT_THROW(parse_host_job(to_json(no_such_server)), BadInput);
  HostJob nobody = some_job();
  nobody.count = 0;
  EXPECT_EQ(parse_host_job(to_json(nobody)).members().size(), 2u) << "servers alone";
  nobody.own_servers.clear();
  EXPECT_THROW(parse_host_job(to_json(nobody)), BadInput);
  HostJob unnamed = some_job();
  unnamed.server_program.clear();
  EXPECT_THROW(parse_host_job(to_json(unnamed)), BadInput);
  for (const char* text : {"", "{}", "[1]", "{\"size\": \"x\"}"})
    EXPECT_THROW(parse_host_job(text), BadInput) << text;
  HostJob binary = some_job();
  binary.program = {"\xff"};
  EXPECT_THROW(to_json(binary), BadInput);
}

TEST(HostJob, TellsEachRankWhoItIs) {
  const auto variables = some_job().environment_of(5, {"PATH=/bin", "A=old", "OMP_NUM_THREADS="});
  for (const char* variable : {"ASUP_RANK=5", "ASUP_SIZE=8", "ASUP_LOCAL_RANK=1",
                               "ASUP_LOCAL_SIZE=2", "ASUP_COORDINATOR=10.0.0.1:5000", "PATH=/bin",
                               "A=1", "B=x=y", "ASUP_ROLE=worker", "ASUP_SERVERS=3"})
    EXPECT_THAT(variables, Contains(variable));
  EXPECT_THAT(variables, Not(Contains("A=old")));
  EXPECT_EQ(get_variable(variables, "OMP_NUM_THREADS"),
            std::to_string(std::max(1, usable_cores() / 2)));
  EXPECT_EQ(get_variable(some_job().environment_of(5, {"OMP_NUM_THREADS=3"}), "OMP_NUM_THREADS"),
            "3");
}

TEST(HostJob, TellsEachServerWhoItIs) {
  EXPECT_THAT(some_job().members(), ElementsAre(4, 5, 8, 10));
  const auto variables = some_job().environment_of(10, {"ASUP_RANK=7", "ASUP_LOCAL_RANK=1"});
  for (const char* variable : {"ASUP_ROLE=server", "ASUP_SERVER_RANK=2", "ASUP_SIZE=8",
                               "ASUP_SERVERS=3", "ASUP_RANK=", "ASUP_LOCAL_RANK="})
    EXPECT_THAT(variables, Contains(variable));
}

TEST(AgentProtocol, AnyBytesComeThrough) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  bytes += "größer\n";
  const std::string line = output_line(3, Stream::err, bytes);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto message = parse_agent_message(line);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, AgentMessage::Kind::output);
  EXPECT_EQ(message->rank, 3);
  EXPECT_EQ(message->stream, Stream::err);
  EXPECT_EQ(message->text, bytes);
}

TEST(AgentProtocol, EveryMessageIsRead) {
  EXPECT_EQ(parse_agent_message(greeting_line("beta"))->text, "beta");
  EXPECT_EQ(parse_agent_message(started_line(2, 99))->pid, 99);
  EXPECT_EQ(parse_agent_message(ended_line(end_of(2, kExit3)))->status, kExit3);
  EXPECT_EQ(parse_agent_message(failed_line("no such file"))->text, "no such file");
  EXPECT_EQ(parse_signal_line(signal_line(15)), 15);
  for (const char* noise : {"", "Welcome to beta!", "{}", "[]", "null", "{\"started\": \"x\"}"})
    EXPECT_FALSE(parse_agent_message(noise)) << noise;
  EXPECT_FALSE(parse_signal_line("{}"));
}

TEST(SshCommand, AsksNoQuestionsAndCarriesNoSecrets) {
  RemoteOptions options;
  options.host = "me@beta";
  options.ssh = "ssh -p 2222";
  options.asup = "/opt/it's/asup";
  EXPECT_THAT(
      ssh_command(options),
      ElementsAre("ssh", "-p", "2222", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                  "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "me@beta", "--",
                  "exec '/opt/it'\\''s/asup' agent"));
}

TEST(FindProgram, LooksInThePath) {
  EXPECT_THAT(find_program("sh", {"PATH=/nowhere:/bin"}), HasSubstr("/bin/sh"));
  EXPECT_EQ(find_program("./x", {}), "./x");
  try {
    find_program("no-such-program", {"PATH=/bin"});
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("in none of the folders of PATH"));
  }
}

}  // namespace
}  // namespace asup::launch
