// A process that is stopped: when the others have waited for it, they go on without it, by the
// coordinator's word. It has ended by then where it reaches their memory; else it is told when it
// wakes.
#include <gmock/gmock.h>
#include <signal.h>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/net/transport/mesh.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace asup::collective {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr int kStopped = 1;
constexpr Seconds kTimeout{3};

class Stopped : public ::testing::TestWithParam<LinkKind> {};

// As in `ps`; the test takes away corpses of later ranks later.
char state_of(pid_t pid) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", pid));
  return stat.at(stat.rfind(')') + 2);
}

// What the call in which it is missed says.
std::string miss(Communicator& communicator, Buffer buffer) {
  for (;;)
    if (const Outcome outcome = communicator.all_reduce(buffer); !outcome.ok())
      return outcome.message();
}

void expect_goes_on(Job& job, Communicator& communicator, Buffer buffer) {
  (void)miss(communicator, buffer);
  communicator.rebuild().or_throw();
  ASSERT_EQ(communicator.size(), kRanks - 1);
  job.go_on_with({0, 2, 3}, {0, 1, 2, 3});
  auto* const values = static_cast<float*>(buffer.data);
  std::fill_n(values, buffer.count, 1.0F);
  communicator.all_reduce(buffer).or_throw();
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[buffer.count - 1], 3);
}

TEST_P(Stopped, IsGoneOnWithout) {
  const bool shares = GetParam() == LinkKind::shm;
  asup::testing::run_processes(
      kRanks, GetParam(),
      [&](Job& job) {
        auto communicator = make_communicator(job, {.timeout = kTimeout});
        {
          const net::MeshLock lock(job.mesh().loop());
          job.mesh().give_up_the_late();
        }
        const auto memory = communicator->allocate(1 << 20);
        const Buffer buffer{memory->bytes().data(), memory->bytes().size() / 4, Dtype::f32};
        communicator->barrier().or_throw();
        const pid_t stopped = job.roster().members[kStopped].pid;
        if (job.rank() != kStopped) {
          expect_goes_on(job, *communicator, buffer);
          EXPECT_EQ(state_of(stopped), shares ? 'Z' : 'T');
          communicator->barrier().or_throw();
          if (job.rank() == 0) kill(stopped, SIGCONT);
          return;
        }
        raise(SIGSTOP);
        EXPECT_FALSE(shares) << "it is killed while it is stopped";
        (void)miss(*communicator, buffer);
        for (const Deadline end = after(asup::testing::kPatience); Clock::now() < end;) try {
            job.require_place();
          } catch (const JobFailed& failure) {
            EXPECT_THAT(failure.what(), HasSubstr("the others go on without rank 1 (pid"));
            return;
          }
        ADD_FAILURE() << "it is not told";
      },
      shares ? kStopped : -1);
}

INSTANTIATE_TEST_SUITE_P(Links, Stopped, ::testing::Values(LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::collective
