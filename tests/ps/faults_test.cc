// What becomes of a job whose workers or servers die, as processes of their own.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/fd.h"
#include "tests/ps/group.h"
#include "tests/ps/raw_member.h"
#include "tests/support/thrown.h"

namespace asup::ps::testing {
namespace {

using asup::testing::message_of;
using net::LinkKind;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Seconds kTimeout{120};
constexpr std::uint64_t kElements = 300'000;

class OnEveryLink : public ::testing::TestWithParam<LinkKind> {};

constexpr double kLr[] = {1};

Figures figures_of(const Release& release) {
  Figures figures;
  figures.version = release.version;
  figures.samples = release.end - release.begin;
  return figures;
}

// Works on leases until the end; `before_commit` is called with the number of each push.
template <typename BeforeCommit>
void work(Client& client, const std::vector<float>& gradient, const BeforeCommit& before_commit) {
  client.arrive();
  for (int push = 1;; ++push) {
    const Release release = client.wait();
    if (release.next == Release::Next::end) return;
    client.push({0, kElements / 2}, gradient.data());
    before_commit(push);
    client.push({kElements / 2, kElements}, gradient.data() + kElements / 2);
    client.commit(figures_of(release), kLr);
  }
}

ServerSetup work_of(std::uint64_t steps, pace::Kind kind) {
  ServerSetup setup = setup_of({kElements}, {.kind = kind});
  setup.work = pace::Workload{
      .steps = steps, .batch = 6, .steps_per_epoch = steps, .last_batch = 6, .sync_points = {}};
  return setup;
}

// Lets processes that are forked later wait for one of them.
class Signal {
 public:
  Signal() {
    int fds[2];
    check(pipe(fds) == 0, "pipe");
    reader_ = Fd(fds[0]);
    writer_ = Fd(fds[1]);
  }
  void give() { check(write(writer_.get(), "!", 1) == 1, "write"); }
  void wait() {
    pollfd given{reader_.get(), POLLIN, 0};  // and never read: it is for all
    check(poll(&given, 1, 120'000) == 1, "the signal did not come");
  }

 private:
  Fd reader_, writer_;
};

// The half push of a worker that dies counts for nothing, what it had leased is done by others, and
// the model is what all samples together make of it: no step is lost, none is done twice.
TEST_P(OnEveryLink, AWorkerThatDiesWhileItPushesIsDoneWithout) {
  for (const pace::Kind kind : {pace::Kind::asp, pace::Kind::bsp}) {
    const ps::ServerSetup setup = work_of(30, kind);
    Signal dies;  // without it, the others could do all the work before that
    asup::testing::run_processes(5, GetParam(), play([&](int rank, net::MemberGroup group) {
                                   Client client(group, setup, {}, kTimeout);
                                   client.begin(rank == 0);
                                   const std::vector<float> gradient(kElements, 1.0f);
                                   work(client, gradient, [&](int push) {
                                     if (push != 4) return;
                                     if (rank != 2) return dies.wait();
                                     dies.give();
                                     raise(SIGKILL);
                                   });
                                   for (const float parameter : client.parameters())
                                     ASSERT_NEAR(parameter, -30.0f, 1e-3);
                                 }),
                                 /*killed=*/2, /*servers=*/2);
  }
}

TEST_P(OnEveryLink, OneServerTellsOfALostWorker) {
  const ps::ServerSetup setup = work_of(10, pace::Kind::asp);
  ::testing::internal::CaptureStderr();
  asup::testing::run_processes(5, GetParam(), play([&](int rank, net::MemberGroup group) {
                                 Client client(group, setup, {}, kTimeout);
                                 client.begin(rank == 0);
                                 if (rank == 1) raise(SIGKILL);
                                 work(client, std::vector<float>(kElements, 1.0f), [](int) {});
                               }),
                               /*killed=*/1, /*servers=*/3);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto first = said.find("rank 1 (");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_THAT(said.substr(first), HasSubstr(") was lost"));
  EXPECT_EQ(said.find("rank 1 (", first + 1), std::string::npos) << said;
}

TEST_P(OnEveryLink, ALostServerIsNamed) {
  const ps::ServerSetup setup = work_of(1'000'000, pace::Kind::asp);
  asup::testing::run_processes(
      4, GetParam(),
      [&](Job& job) {
        const net::MemberGroup group = net::workers_and_servers(job);
        if (job.member() == 3) {
          std::thread([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            raise(SIGKILL);
          }).detach();
        }
        try {
          if (job.is_server()) return Server(group, {}).run();
          Client client(group, setup, {}, kTimeout);
          client.begin(job.rank() == 0);
          const std::vector<float> gradient(kElements, 1.0f);
          work(client, gradient, [](int) {});
          FAIL() << "the work has no end";
        } catch (const JobFailed& error) {
          EXPECT_THAT(error.what(), HasSubstr("server"));
        }
      },
      /*killed=*/3, /*servers=*/2);
}

// From now on this process gets so much more.
void limit_memory(std::uint64_t bytes) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit{pages * static_cast<std::uint64_t>(getpagesize()) + bytes, RLIM_INFINITY};
  check(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

// Over TCP: what cannot be mapped ends the link.
TEST(WithoutMemory, AServerSaysThatItHasNone) {
  const ps::ServerSetup setup = setup_of({20'000'000});
  asup::testing::run_processes(
      2, LinkKind::tcp,
      [&](Job& job) {
        const net::MemberGroup group = net::workers_and_servers(job);
        if (!job.is_server()) {
          Client client(group, setup, {}, kTimeout);
          EXPECT_THAT(message_of<JobFailed>([&] { client.begin(true); }), HasSubstr("server 0"));
          return;
        }
        Server server(group, {.threads = 1});
        limit_memory(std::uint64_t{32} << 20);
        EXPECT_THAT(message_of<JobFailed>([&] { server.run(); }),
                    AllOf(HasSubstr("server 0 (pid"),
                          HasSubstr("ran out of memory while it took a message of"),
                          HasSubstr("bytes from rank 0 (pid")));
      },
      /*killed=*/-1, /*servers=*/1);
}

// Bytes that no worker sends are refused, and the others go on.
TEST_P(OnEveryLink, AWorkerThatTalksNonsenseIsRefusedAndTheOthersGoOn) {
  const ps::ServerSetup setup = work_of(20, pace::Kind::asp);
  asup::testing::run_processes(3, GetParam(), play([&](int rank, net::MemberGroup group) {
                                 Client client(group, setup, {}, kTimeout);
                                 client.begin(rank == 0);
                                 const std::vector<float> gradient(kElements, 1.0f);
                                 if (rank == 1) {
                                   client.arrive();
                                   const Release release = client.wait();
                                   client.push({0, 10}, gradient.data());
                                   client.commit(figures_of(release), kLr);
                                   try {
                                     client.wait();
                                     ADD_FAILURE() << "a push of 10 elements was taken";
                                   } catch (const JobFailed& error) {
                                     EXPECT_THAT(error.what(),
                                                 HasSubstr("has 10 of 300000 elements"));
                                   }
                                   return;
                                 }
                                 work(client, gradient, [](int) {});
                                 ASSERT_NEAR(client.parameters()[7], -20.0f, 1e-3);
                               }),
                               -1, /*servers=*/1);
}

// A server dies when the second piece of an optimizer's state has come, or is asked for.
TEST_P(OnEveryLink, AServerThatDiesWhileAnOptimizersStateTravelsIsNamed) {
  ServerSetup setup = setup_of({3'000'000});
  setup.rules[0].kind = kernels::Rule::Kind::momentum;
  setup.rules[0].momentum = 0.9;
  for (const bool fetches : {false, true}) {
    setup.with_state = !fetches;
    asup::testing::run_processes(
        3, GetParam(),
        [&](Job& job) {
          const net::MemberGroup group = net::workers_and_servers(job);
          if (job.member() == 2) {
            RawMember server(group);
            server.on_message = [pieces = 0](Kind kind) mutable {
              if ((kind == Kind::state || kind == Kind::ask_state) && ++pieces == 2) raise(SIGKILL);
            };
            server.wait_for(Kind::hello);
            const Range shard = shards_of(setup, 2)[1];
            if (fetches) {
              server.send(0, Welcome{});
              server.wait_for(Kind::ask_state_updates);
              server.send(0, StateUpdates{0, shard}, sizeof(std::uint64_t));
              server.wait_for(Kind::ask_state);
              server.send(0, State{0, 0, 0, {shard.begin, shard.begin + kMostStateElements}},
                          kMostStateElements * sizeof(float));
            }
            server.wait_for(Kind::leave);
            return;
          }
          try {
            if (job.is_server()) return Server(group, {}).run();
            Client client(group, setup, {}, kTimeout);
            client.begin(true, {{1}, [](std::size_t, Range range, float* to) {
                                  std::fill(to, to + range.size(), 1.0f);
                                }});
            client.fetch_state(
                {0, setup.layout.elements}, [](auto) {}, [](std::size_t, Range, const float*) {});
            ADD_FAILURE() << "the state came whole";
          } catch (const JobFailed& error) {
            EXPECT_THAT(error.what(), HasSubstr("server 1"));
          }
        },
        /*killed=*/2, /*servers=*/2);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, OnEveryLink, ::testing::Values(LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::ps::testing
