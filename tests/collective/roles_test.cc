// Workers and servers in one job, as threads and as processes: who is who, communicators of the
// workers alone, and servers that outlast them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <numeric>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/tuning/surroundings.h"
#include "asup/net/transport/mesh.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;
using testing::message_of;

constexpr int kWorkers = 2, kServers = 2, kMembers = kWorkers + kServers;

void work(Job& job) {
  EXPECT_EQ(job.rank(), job.member());
  EXPECT_LT(job.rank(), kWorkers);
  EXPECT_EQ(collective::tuning::surroundings_of(job).hosts.size(), std::size_t{kWorkers});
  auto communicator = make_communicator(job);
  EXPECT_EQ(communicator->size(), kWorkers);
  for (const std::size_t count : {1, 1000, 300'000}) {
    std::vector<float> values(count, static_cast<float>(job.rank() + 1));
    communicator->all_reduce(buffer_of(std::span(values)), ReduceOp::sum).or_throw();
    EXPECT_EQ(std::count(values.begin(), values.end(), 3.0F), std::ssize(values));
  }
}

void serve(Job& job) {
  const int server = job.member() - kWorkers;
  EXPECT_GE(server, 0);
  const std::string name = "server " + std::to_string(server);
  EXPECT_THAT(job.roster().members[static_cast<std::size_t>(job.member())].describe(),
              HasSubstr(name + " (pid "));
  EXPECT_THAT(message_of<BadInput>([&] { job.rank(); }), HasSubstr(name + " has no rank"));
  EXPECT_THAT(message_of<BadInput>([&] { make_communicator(job); }),
              HasSubstr(name + " cannot make a communicator"));
  job.wait_for_workers_to_leave();
  const net::MeshLock lock(job.mesh().loop());
  for (int worker = 0; worker < kWorkers; ++worker)
    EXPECT_NE(job.mesh().end_of(worker), net::LinkEnd::open);
}

void take_part(Job& job) {
  EXPECT_EQ(job.size(), kWorkers);
  EXPECT_EQ(job.servers(), kServers);
  EXPECT_EQ(job.roster().roles(), (net::Roles{kWorkers, kServers}));
  EXPECT_EQ(job.mesh().size(), kMembers);
  job.is_server() ? serve(job) : work(job);
}

class RolesOfThreads : public ::testing::TestWithParam<LinkKind> {};
class RolesOfProcesses : public ::testing::TestWithParam<LinkKind> {};

TEST_P(RolesOfThreads, ShareAJob) { testing::run_ranks(kMembers, GetParam(), take_part, kServers); }

TEST_P(RolesOfProcesses, ShareAJob) {
  testing::run_processes(kMembers, GetParam(), take_part, -1, kServers);
}

// A worker that dies is gone like one that left, and the servers hold no worker up.
TEST_P(RolesOfProcesses, ServersOutlastAKilledWorker) {
  testing::run_processes(
      kMembers, GetParam(),
      [](Job& job) {
        if (job.is_server()) return serve(job);
        work(job);
        if (job.rank() != 1) return;
        job.wait_for_workers_to_leave();  // so that it breaks no call of the other's
        raise(SIGKILL);
      },
      1, kServers);
}

std::string name_of_case(const ::testing::TestParamInfo<LinkKind>& test) {
  return testing::name_of(test.param);
}
INSTANTIATE_TEST_SUITE_P(Links, RolesOfThreads,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Links, RolesOfProcesses, ::testing::Values(LinkKind::shm, LinkKind::tcp),
                         name_of_case);

TEST(Roles, AJobNeedsAWorker) {
  net::JoinOptions options;
  options.size = options.servers = 1;
  EXPECT_THAT(message_of<BadInput>([&] { Job::join(options); }),
              HasSubstr("at least one member must train"));
}

}  // namespace
}  // namespace asup
