// Collectives over links of MPI, under mpirun -n 4: every rank runs every test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/net/membership/address.h"
#include "asup/net/transport/mesh.h"
#include "asup/net/transport/mpi/join.h"
#include "tests/collective/sample.h"
#include "tests/support/thrown.h"

namespace asup::collective {
namespace {

using asup::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

// As mpirun's variables say, with links over MPI.
net::JoinOptions identity() {
  net::JoinOptions options =
      net::identity_from(net::with_variable(net::process_environment(), "ASUP_LINKS", "mpi"));
  options.call_timeout = Seconds(30);
  return options;
}

TEST(OverMpi, FindsTheOthersWithoutACoordinator) {
  Job job = Job::join(identity());
  ASSERT_EQ(job.size(), 4);
  std::set<int> processes;
  for (int rank = 0; rank < job.size(); ++rank) {
    const net::Member& member = job.roster().members[static_cast<std::size_t>(rank)];
    EXPECT_EQ(member.rank, rank);
    processes.insert(member.pid);
  }
  EXPECT_EQ(processes.size(), 4u);
  EXPECT_TRUE(job.roster().one_host());
  EXPECT_FALSE(job.mesh().shares_memory());
}

TEST(OverMpi, EveryAlgorithmAgreesWithTheReference) {
  Job job = Job::join(identity());
  const auto all = make_communicator(job);
  for (int ranks = 1; ranks <= job.size(); ++ranks)
    if (const auto some = all->split(job.rank() < ranks ? 0 : -1, 0))
      testing::run_every_algorithm(*some, false);
  EXPECT_TRUE(all->barrier().ok());
}

TEST(OverMpi, CarriesWhatIsManyTimesAWindow) {
  Job job = Job::join(identity());
  const auto communicator = make_communicator(job);
  std::vector<float> values(5'000'001);
  for (int round = 1; round <= 3; ++round) {
    std::fill(values.begin(), values.end(), static_cast<float>(job.rank() + round));
    const Outcome outcome = communicator->all_reduce(buffer_of(std::span(values)));
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    const float sum = static_cast<float>(6 + 4 * round);
    EXPECT_EQ(std::count(values.begin(), values.end(), sum), std::ssize(values));
  }
}

// Nobody waits for the call, so the loop alone moves it, and nothing wakes the loop.
TEST(OverMpi, ACallThatWasStartedEndsWhileNobodyWaits) {
  Job job = Job::join(identity());
  const auto communicator = make_communicator(job);
  std::vector<float> values(100'000, 1.0f);
  Work work = communicator->start_all_reduce(buffer_of(std::span(values)));
  const Deadline deadline = after(Seconds(30));
  while (!work.done() && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(work.done());
  EXPECT_TRUE(work.wait().ok());
  EXPECT_EQ(values.back(), 4.0f);
}

TEST(OverMpi, ARankThatLeavesIsNamedAndTheOthersGoOn) {
  auto job = std::make_unique<Job>(Job::join(identity()));
  auto communicator = make_communicator(*job);
  ASSERT_TRUE(communicator->barrier().ok());
  std::vector<float> values(1000, 1.0f);
  if (job->rank() == 2) {  // leaves when all the others are past the barrier
    for (const int other : {0, 1, 3})
      ASSERT_TRUE(communicator->recv(buffer_of(std::span(values)), other).ok());
    return;
  }
  ASSERT_TRUE(communicator->send(buffer_of(std::span(values)), 2).ok());
  const Outcome outcome = communicator->all_reduce(buffer_of(std::span(values)));
  EXPECT_EQ(outcome.kind(), Outcome::Kind::lost);
  EXPECT_THAT(outcome.message(), HasSubstr("rank 2"));
  const Outcome rebuilt = communicator->rebuild();
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.message();
  std::fill(values.begin(), values.end(), 1.0f);
  ASSERT_TRUE(communicator->all_reduce(buffer_of(std::span(values))).ok());
  EXPECT_EQ(values.front(), 3.0f);
}

TEST(OverMpi, OneJobAtATimeLivesInAProcess) {
  Job job = Job::join(identity());
  EXPECT_THAT(message_of<BadInput>([] { Job::join(identity()); }),
              AllOf(HasSubstr("lives in this process already"), HasSubstr("ASUP_LINKS=auto")));
  EXPECT_TRUE(make_communicator(job)->barrier().ok());
}

TEST(OverMpi, AnotherWorldThanTheLaunchersIsRefused) {
  net::JoinOptions options = identity();
  options.size = 5;
  EXPECT_THAT(message_of<BadInput>([&] { Job::join(options); }),
              AllOf(HasSubstr("of 5, and MPI that it is rank"), HasSubstr("of 4")));
}

// Every rank says that it is on a host of its own.
TEST(OverMpi, WhatShouldBeEncryptedIsRefused) {
  const auto refusal = [](net::TlsMode tls, bool one_host) {
    net::JoinOptions options = identity();
    options.tls = tls;
    net::Member self;
    self.rank = options.rank;
    self.host = net::this_host();
    if (!one_host) self.host.namespace_ = fmt::format("of rank {}", options.rank);
    return message_of<BadInput>([&] { net::join_by_mpi(options, self); });
  };
  const auto why = AllOf(HasSubstr("links over MPI cannot be encrypted"), HasSubstr("--tls off"));
  EXPECT_THAT(refusal(net::TlsMode::automatic, false), AllOf(why, HasSubstr("between hosts")));
  EXPECT_THAT(refusal(net::TlsMode::on, true), AllOf(why, HasSubstr("with --tls on")));
  EXPECT_EQ(refusal(net::TlsMode::off, false), "");
  EXPECT_EQ(refusal(net::TlsMode::automatic, true), "");
}

}  // namespace
}  // namespace asup::collective
