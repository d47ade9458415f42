// Workers and servers of embedding tables over real links, on threads and as processes.
#include "asup/ps/table/server.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "asup/base/error.h"
#include "asup/ps/serve.h"
#include "asup/ps/table/client.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::ps::table {
namespace {

using asup::testing::message_of;
using asup::testing::run_processes;
using asup::testing::run_ranks;
using kernels::Rule;
using net::LinkKind;
using ::testing::HasSubstr;
using Floats = std::vector<float>;
using Ids = std::vector<std::int64_t>;

constexpr Seconds kTimeout{120};

TableSetup setup_of(bool synchronous = true, std::uint64_t rows = 1000, std::uint32_t width = 4) {
  return {.name = "items", .rows = rows, .width = width, .seed = 1, .synchronous = synchronous};
}

// `work` on each worker, with a client; servers serve.
std::function<void(Job&)> play(const std::function<void(Job&, Client&)>& work) {
  return [work](Job& job) {
    if (job.is_server()) return serve(job, {.threads = 1, .patience = Seconds(120)});
    Client client(group_of(job), kTimeout);
    work(job, client);
  };
}

Floats pull(Client& client, const TableSetup& setup, const Ids& ids) {
  const DistinctRows distinct = distinct_rows(ids, setup.rows, client.servers());
  Floats rows(distinct.rows.size() * setup.width), found;
  client.pull(0, distinct, rows.data());
  for (const std::int64_t place : distinct.places) {
    const auto begin = rows.begin() + place * setup.width;
    found.insert(found.end(), begin, begin + setup.width);
  }
  return found;
}

void step(Client& client, const TableSetup& setup, const Ids& ids, float gradient,
          std::uint64_t samples = 1) {
  const DistinctRows distinct = distinct_rows(ids, setup.rows, client.servers());
  const Floats gradients(distinct.rows.size() * setup.width, gradient);
  client.push(0, distinct, gradients.data());
  const TableStep table_step{1.0, 1};
  client.commit(samples, {&table_step, 1});
}

float initial(const TableSetup& setup, std::uint64_t row) {
  Floats numbers(setup.width);
  initial_row(setup, row, numbers.data());
  return numbers[0];
}

class OnEveryLink : public ::testing::TestWithParam<LinkKind> {};
class BetweenProcesses : public ::testing::TestWithParam<LinkKind> {};

// Worker 0 has three times the samples of worker 1, and only row 5 is in both batches.
TEST_P(OnEveryLink, InBspAStepIsTheMeanOfAllWorkersByTheirSamples) {
  const TableSetup setup = setup_of();
  run_ranks(
      4, GetParam(), play([&](Job& job, Client& client) {
        client.add(setup);
        const bool first = job.rank() == 0;
        for (int i = 1; i <= 3; ++i) {
          step(client, setup, first ? Ids{2, 5} : Ids{5, 9}, first ? 1.0f : 2.0f, first ? 30 : 10);
          const Floats rows = pull(client, setup, {5, 2, 9, 7});
          const auto steps = static_cast<float>(i);
          EXPECT_NEAR(rows[0], initial(setup, 5) - steps * 1.25f, 1e-5);
          EXPECT_NEAR(rows[4], initial(setup, 2) - steps * 0.75f, 1e-5);
          EXPECT_NEAR(rows[8], initial(setup, 9) - steps * 0.5f, 1e-5);
          EXPECT_EQ(rows[12], initial(setup, 7));
        }
      }),
      /*servers=*/2);
}

// A push counts by its share of a step: a half, while both workers have batches of one size.
TEST_P(OnEveryLink, InAspEachPushIsAnUpdateByItsShare) {
  const TableSetup setup = setup_of(/*synchronous=*/false);
  run_ranks(4, GetParam(), play([&](Job& job, Client& client) {
              client.add(setup);
              for (int i = 0; i < 4; ++i) step(client, setup, {5}, 1.0f, 8);
              if (job.rank() == 0) {
                EXPECT_LE(pull(client, setup, {5})[0], initial(setup, 5) - 4 * 0.5f + 1e-5);
              }
              client.meet();
              EXPECT_NEAR(pull(client, setup, {5})[0], initial(setup, 5) - 8 * 0.5f, 1e-5);
            }),
            /*servers=*/2);
}

// More rows than a message has room for.
TEST_P(OnEveryLink, LargeBatchesTravelInPieces) {
  const TableSetup setup = setup_of(true, 80'000, 64);
  run_ranks(3, GetParam(), play([&](Job&, Client& client) {
              client.add(setup);
              Ids ids;
              for (std::int64_t id = 79'999; id >= 0; id -= 2) ids.push_back(id);
              step(client, setup, ids, 1.0f);
              const Floats rows = pull(client, setup, ids);
              for (std::size_t i = 0; i < ids.size(); i += 1111)
                ASSERT_NEAR(rows[i * 64], initial(setup, static_cast<std::uint64_t>(ids[i])) - 1,
                            1e-5);
            }),
            /*servers=*/2);
}

TEST_P(OnEveryLink, RecordsAreReadAndWrittenByRows) {
  const TableSetup setup = setup_of();
  run_ranks(5, GetParam(), play([&](Job& job, Client& client) {
              client.add(setup);
              const int first = client.meet();
              EXPECT_EQ(first, 0);
              Floats records(100 * 4);
              if (job.rank() == first) {
                for (std::size_t i = 0; i < records.size(); ++i) records[i] = static_cast<float>(i);
                client.write_records(0, {300, 400}, records.data(), 12);
                Floats found(100 * 4);
                EXPECT_EQ(client.read_records(0, {300, 400}, found.data()), 12);
                EXPECT_EQ(found, records);
              }
              client.meet();
              EXPECT_EQ(pull(client, setup, {399, 300, 301})[0], 99 * 4);
              EXPECT_EQ(pull(client, setup, {400})[0], initial(setup, 400));
            }),
            /*servers=*/3);
}

TEST_P(OnEveryLink, AWorkerThatLeavesIsNotWaitedForAndItsLastStepCounts) {
  const TableSetup setup = setup_of();
  run_ranks(
      3, GetParam(),
      [&](Job& job) {
        if (job.is_server()) return serve(job, {.threads = 1, .patience = Seconds(120)});
        std::optional<Client> client(std::in_place, group_of(job), kTimeout);
        client->add(setup);
        step(*client, setup, {5}, 1.0f);
        if (job.rank() == 1) return client.reset();
        EXPECT_NEAR(pull(*client, setup, {5})[0], initial(setup, 5) - 1, 1e-5);
        step(*client, setup, {5}, 1.0f);
        EXPECT_NEAR(pull(*client, setup, {5})[0], initial(setup, 5) - 2, 1e-5);
      },
      /*servers=*/1);
}

TEST_P(OnEveryLink, WorkersThatWantDifferentTablesAreTold) {
  run_ranks(4, GetParam(), play([&](Job& job, Client& client) {
              const TableSetup setup = setup_of(true, 1000, job.rank() == 0 ? 4 : 8);
              const std::string message = message_of<Error>([&] { client.add(setup); });
              EXPECT_THAT(message, HasSubstr("want different tables: table items has width"));
            }),
            /*servers=*/2);
}

// As no Client would.
class RawWorker : private net::Messenger::Handler {
 public:
  explicit RawWorker(net::MemberGroup group) : group_(group) {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_.emplace(group_.mesh, group_.id, std::vector{group_.head()},
                       static_cast<net::Messenger::Handler&>(*this));
    messenger_->open();
  }
  ~RawWorker() override {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_.reset();
  }
  template <typename Body>
  void say(const Body& body, std::vector<std::byte> payload = {}) {
    const net::MeshLock lock(group_.mesh.loop());
    messenger_->send_kept(group_.head(), head_of(body), std::move(payload));
  }
  bool wait_for_welcome() {
    const net::MeshLock lock(group_.mesh.loop());
    return group_.mesh.loop().drive([&] { return welcomed_; }, after(kTimeout));
  }
  std::string refusal() {
    const net::MeshLock lock(group_.mesh.loop());
    group_.mesh.loop().drive([&] { return !refusal_.empty(); }, after(kTimeout));
    return refusal_;
  }

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { return {}; }
  void arrived(int, net::ConstBytes head, net::Bytes payload) override {
    welcomed_ = welcomed_ || read<Welcome>(head);
    if (read<Refused>(head))
      refusal_ = {reinterpret_cast<const char*>(payload.data()), payload.size()};
  }
  void gone(int, net::LinkEnd) override {}

  const net::MemberGroup group_;
  std::optional<net::Messenger> messenger_;
  bool welcomed_ = false;
  std::string refusal_;
};

std::vector<std::byte> bytes_of(const std::vector<std::uint64_t>& rows, std::size_t floats = 0) {
  std::vector<std::byte> bytes(rows.size() * sizeof(std::uint64_t) + floats * sizeof(float));
  std::memcpy(bytes.data(), rows.data(), rows.size() * sizeof(std::uint64_t));
  return bytes;
}

// The other worker trains on alone.
TEST(TableServer, NonsenseIsRefusedAndTheOthersGoOn) {
  struct Case {
    std::function<void(RawWorker&)> say;
    const char* refusal;
  };
  constexpr std::uint64_t kMany = std::uint64_t{1} << 61;
  const Case cases[] = {
      {[](RawWorker& raw) {
         raw.say(Push{0, 1}, bytes_of({1000}, 4));
       },
       "not here"},
      {[](RawWorker& raw) {
         raw.say(Push{0, 2}, bytes_of({7, 7}, 8));
       },
       "not in order"},
      {[](RawWorker& raw) {
         raw.say(Push{0, 1}, bytes_of({7}, 4));
         raw.say(Push{0, 1}, bytes_of({6}, 4));
       },
       "not in order"},
      {[](RawWorker& raw) {
         raw.say(Push{0, 1}, bytes_of({7}, 3));
       },
       "in 20 bytes"},
      {[](RawWorker& raw) {
         raw.say(Push{0, kMany}, bytes_of({7}, 4));
       },
       "in 24 bytes"},
      {[](RawWorker& raw) {
         raw.say(Push{1, 1}, bytes_of({7}, 4));
       },
       "not there"},
      {[](RawWorker& raw) {
         raw.say(Pull{1, 0}, bytes_of({1000}));
       },
       "not here"},
      {[](RawWorker& raw) {
         raw.say(Pull{1, 3}, bytes_of({1}));
       },
       "not there"},
      {[](RawWorker& raw) {
         raw.say(Pull{1, 0}, std::vector<std::byte>(9));
       },
       "by 9 bytes"},
      {[](RawWorker& raw) { raw.say(Commit{1}); }, "of 0 bytes"},
      {[](RawWorker& raw) {
         raw.say(Read{1, 0, {990, 1001}});
       },
       "not here"},
      {[](RawWorker& raw) {
         raw.say(Read{1, 0, {10, 2}});
       },
       "not here"},
      {[](RawWorker& raw) {
         raw.say(Write{1, 0, {0, 2}, 0}, std::vector<std::byte>(16));
       },
       "do not fit"},
      {[](RawWorker& raw) {
         raw.say(Answer{1, 0});
       },
       "no worker says"},
  };
  const TableSetup setup = setup_of();
  for (const Case& one : cases) {
    SCOPED_TRACE(one.refusal);
    run_ranks(
        3, LinkKind::inproc,
        [&](Job& job) {
          if (job.is_server()) return serve(job, {.threads = 1, .patience = Seconds(120)});
          if (job.rank() == 1) {
            RawWorker raw(group_of(job));
            const std::string text = to_text(setup);
            const auto bytes = std::as_bytes(std::span(text));
            raw.say(Hello{0}, {bytes.begin(), bytes.end()});
            ASSERT_TRUE(raw.wait_for_welcome());
            one.say(raw);
            EXPECT_THAT(raw.refusal(), HasSubstr(one.refusal));
            return;
          }
          Client client(group_of(job), kTimeout);
          client.add(setup);
          step(client, setup, {5}, 1.0f);
          EXPECT_NEAR(pull(client, setup, {5})[0], initial(setup, 5) - 1, 1e-5);
        },
        /*servers=*/1);
  }
}

TEST_P(BetweenProcesses, AKilledWorkerIsDoneWithout) {
  const TableSetup setup = setup_of();
  run_processes(5, GetParam(), play([&](Job& job, Client& client) {
                  client.add(setup);
                  for (int i = 0; i < 20; ++i) {
                    if (job.rank() == 1 && i == 5) raise(SIGKILL);
                    step(client, setup, {5}, 1.0f);
                    const float gone = initial(setup, 5) - pull(client, setup, {5})[0];
                    EXPECT_NEAR(gone, i + 1, 1e-4) << "a step of three workers, or of two";
                  }
                }),
                /*killed=*/1, /*servers=*/2);
}

TEST_P(BetweenProcesses, ALostServerIsNamed) {
  const TableSetup setup = setup_of();
  run_processes(
      3, GetParam(),
      [&](Job& job) {
        if (job.is_server()) {
          if (job.member() == 2) {
            const Server tables(group_of(job));
            const net::MeshLock lock(job.mesh().loop());
            job.mesh().loop().drive([] { return false; }, after(Seconds(0.3)));
            raise(SIGKILL);
          }
          try {
            return serve(job, {.threads = 1, .patience = Seconds(120)});
          } catch (const JobFailed&) {
            return;
          }
        }
        const std::string message = message_of<JobFailed>([&] {
          Client client(group_of(job), kTimeout);
          client.add(setup);
          for (;;) step(client, setup, {1, 2}, 1.0f);
        });
        EXPECT_THAT(message, HasSubstr("server"));
      },
      /*killed=*/2, /*servers=*/2);
}

INSTANTIATE_TEST_SUITE_P(Links, OnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });
INSTANTIATE_TEST_SUITE_P(Links, BetweenProcesses, ::testing::Values(LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::ps::table
