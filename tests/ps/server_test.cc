// Workers and servers together, over every kind of link.
#include "asup/ps/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <latch>
#include <map>
#include <mutex>
#include <set>

#include "asup/base/error.h"
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

Figures figures_of(const Release& release) {
  Figures figures;
  figures.version = release.version;
  figures.samples = std::max<std::uint64_t>(release.end - release.begin, 1);
  return figures;
}

// A gradient that tells workers and elements apart, of f(w) = sum of a_i w_i^2 / 2.
float gradient_of(int rank, std::uint64_t element, float parameter) {
  return parameter * (0.1f + 0.01f * static_cast<float>(element % 7)) +
         0.5f * static_cast<float>(rank);
}

void fill_first(std::span<float> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = static_cast<float>(i % 11) - 5.0f;
}

class EveryCast : public ::testing::TestWithParam<Cast> {};

// n workers in step do what one process does with the average of their gradients.
TEST_P(EveryCast, InStepTheyDoWhatOneProcessDoes) {
  const ps::ServerSetup setup = setup_of({1000, 1, 70'000, 33'333});
  constexpr int kSteps = 5;
  constexpr double kLr = 0.1;
  std::vector<double> expected(setup.layout.elements);
  {
    std::vector<float> first(expected.size());
    fill_first(first);
    expected.assign(first.begin(), first.end());
  }
  for (int step = 0; step < kSteps; ++step)
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double sum = 0;
      for (int rank = 0; rank < GetParam().workers; ++rank)
        sum += gradient_of(rank, i, static_cast<float>(expected[i]));
      expected[i] -= kLr * sum / GetParam().workers;
    }

  run_threads(GetParam(), [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    if (rank == 0) fill_first(client.parameters());
    client.begin(rank == 0);
    client.arrive();
    Release release = client.wait();
    const auto memory = group.mesh.allocate(setup.layout.elements * sizeof(float));
    auto* gradient = reinterpret_cast<float*>(memory->bytes().data());
    for (int step = 0; step < kSteps; ++step) {
      for (std::uint64_t i = 0; i < setup.layout.elements; ++i)
        gradient[i] = gradient_of(rank, i, client.parameters()[i]);
      const std::uint64_t half = setup.layout.elements / 2;
      client.push({half, setup.layout.elements}, gradient + half);
      client.push({0, half}, gradient);
      client.commit(figures_of(release), std::vector<double>{kLr});
      release = client.wait();
      EXPECT_EQ(release.version, static_cast<std::uint64_t>(step + 1));
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(client.parameters()[i], expected[i], 1e-4) << "element " << i;
  });
}

// The same from memory that no server reaches.
TEST_P(EveryCast, PrivateGradientsTravelAsBytes) {
  const ps::ServerSetup setup = setup_of({100'000});
  run_threads(GetParam(), [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    client.begin(rank == 0);
    client.arrive();
    Release release = client.wait();
    const std::vector<float> gradient(setup.layout.elements, static_cast<float>(rank + 1));
    client.push({0, setup.layout.elements}, gradient.data());
    client.commit(figures_of(release), std::vector<double>{1});
    client.wait();
    const float mean = static_cast<float>(group.workers + 1) / 2;
    for (const float parameter : client.parameters()) ASSERT_FLOAT_EQ(parameter, -mean);
  });
}

// Rank r pushes r + 1 in every element, of 4 samples: the mean of the squares, and the square of
// the mean, are those of batches of 4 and of 4 n.
TEST_P(EveryCast, TheHeadTellsTheNoiseScale) {
  const ps::ServerSetup setup = setup_of({1000, 70'000});
  run_threads(GetParam(), [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    client.begin(rank == 0);
    client.arrive();
    Release release = client.wait();
    EXPECT_EQ(release.knows_noise, 0u);
    const std::vector<float> gradient(setup.layout.elements, static_cast<float>(rank + 1));
    for (int step = 0; step < 3; ++step) {
      client.push({0, setup.layout.elements}, gradient.data());
      Figures figures = figures_of(release);
      figures.samples = 4;
      figures.described = 1;
      figures.norm = 1000;
      figures.clip = 250;  // what is told is of gradients as they were computed
      client.commit(figures, std::vector<double>{1});
      release = client.wait();
    }
    const double n = group.workers;
    if (group.workers == 1) {
      EXPECT_EQ(release.knows_noise, 0u) << "every update is of one push";
      return;
    }
    const double small = (n + 1) * (2 * n + 1) / 6, large = (n + 1) * (n + 1) / 4;
    const double variance = (small - large) / (1 / 4.0 - 1 / (4 * n));
    const double squared_gradient = (n * large - small) / (n - 1);
    ASSERT_EQ(release.knows_noise, 1u);
    EXPECT_NEAR(release.noise_scale, variance / squared_gradient, 1e-6);
  });
}

std::string name_of(const ::testing::TestParamInfo<Cast>& info) {
  return fmt::format("{}_{}_workers_{}_servers", asup::testing::name_of(info.param.links),
                     info.param.workers, info.param.servers);
}

INSTANTIATE_TEST_SUITE_P(Casts, EveryCast,
                         ::testing::Values(Cast{1, 1, LinkKind::inproc},
                                           Cast{3, 2, LinkKind::inproc}, Cast{2, 1, LinkKind::shm},
                                           Cast{3, 3, LinkKind::shm}, Cast{2, 1, LinkKind::tcp},
                                           Cast{3, 2, LinkKind::tcp}),
                         name_of);

// Model parallel through the servers: each worker has parameters of its own, and one they share.
TEST(Ranges, AWorkerGetsAndTrainsOnlyItsOwn) {
  const ps::ServerSetup setup = setup_of({100, 50, 100}, {.kind = pace::Kind::asp});
  run_threads({2, 2, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const std::vector<Range> own =
        rank == 0 ? std::vector<Range>{{0, 150}} : std::vector<Range>{{100, 250}};
    Client client(group, setup, own, kTimeout);
    if (rank == 0) std::fill(client.parameters().begin(), client.parameters().end(), 1.0f);
    client.begin(rank == 0);
    client.arrive();
    Release release = client.wait();
    const std::vector<float> gradient(250, 1.0f);
    for (int step = 0; step < 4; ++step) {
      client.push(own.front(), gradient.data() + own.front().begin);
      client.commit(figures_of(release), std::vector<double>{0.25});
      release = client.wait();
    }
    // A push alone is half a step.
    const std::size_t mine = rank == 0 ? 0 : 249, other = rank == 0 ? 249 : 0;
    EXPECT_FLOAT_EQ(client.parameters()[mine], 0.5f);
    EXPECT_FLOAT_EQ(client.parameters()[other], rank == 0 ? 1.0f : 0.0f) << "never touched";
  });
}

class EveryPace : public ::testing::TestWithParam<pace::Kind> {};

// Whatever the pace, every sample is worked on once, and all stand at a sync point with the same
// model.
TEST_P(EveryPace, AllWorkIsDoneOnceAndSyncPointsHold) {
  ps::ServerSetup setup = setup_of({5000}, {.kind = GetParam(), .staleness = 1});
  setup.work = work_of(20, {5, 13});
  std::mutex mutex;
  std::multiset<std::uint64_t> samples;
  std::map<std::uint64_t, std::set<float>> at_sync_point;
  run_threads({3, 2, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    client.begin(rank == 0);
    const std::vector<float> gradient(5000, 1.0f);
    client.arrive();
    for (;;) {
      const Release known = client.wait_for_release();  // before the parameters
      const Release release = client.wait();
      EXPECT_EQ(std::tuple(known.next, known.step, known.begin),
                std::tuple(release.next, release.step, release.begin));
      const std::lock_guard lock(mutex);
      if (release.next == Release::Next::end) break;
      if (release.next == Release::Next::sync_point) {
        at_sync_point[release.step].insert(client.parameters()[17]);
        client.arrive({0, 1, 2});
        continue;
      }
      for (std::uint64_t i = release.begin; i < release.end; ++i)
        samples.insert(release.step * 8 + i);
      client.push({0, 5000}, gradient.data());
      client.commit(figures_of(release), std::vector<double>{0.5});
    }
    if (GetParam() == pace::Kind::adaptive) return;  // which may drop what came much too late
    EXPECT_NEAR(client.parameters()[4999], -10.0f, 1e-4) << "20 steps of 0.5";
  });
  EXPECT_EQ(samples.size(), 160u);
  EXPECT_EQ(std::set(samples.begin(), samples.end()).size(), 160u);
  ASSERT_EQ(at_sync_point.size(), 2u);
  for (const auto& [step, values] : at_sync_point) {
    ASSERT_EQ(values.size(), 1u) << "at " << step;
    if (GetParam() == pace::Kind::adaptive) continue;
    EXPECT_NEAR(*values.begin(), -0.5f * static_cast<float>(step), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Paces, EveryPace,
                         ::testing::Values(pace::Kind::bsp, pace::Kind::ssp, pace::Kind::asp,
                                           pace::Kind::adaptive),
                         [](const auto& info) { return std::string(pace::name_of(info.param)); });

// What workers fetch, each a part, other servers, more or fewer, go on with: the rule's state too.
TEST(State, AnotherNumberOfServersGoesOnWhereTheseWere) {
  ps::ServerSetup setup = setup_of({3000, 4000, 90'000});
  setup.rules[0].kind = kernels::Rule::Kind::adam;
  const auto train = [&](Client& client, int rank, int steps, Release release) {
    std::vector<float> gradient(setup.layout.elements);
    for (int step = 0; step < steps; ++step) {
      for (std::uint64_t i = 0; i < gradient.size(); ++i)
        gradient[i] = gradient_of(rank, i, client.parameters()[i]);
      client.push({0, gradient.size()}, gradient.data());
      client.commit(figures_of(release), std::vector<double>{0.01});
      release = client.wait();
    }
    return release;
  };
  const std::uint64_t elements = setup.layout.elements;
  std::vector<float> whole, parameters;
  std::vector<std::vector<float>> slots(state_slots(setup), std::vector<float>(elements));
  std::vector<double> updates;
  std::barrier fetched(2);
  run_threads({2, 2, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    if (rank == 0) fill_first(client.parameters());
    client.begin(rank == 0);
    client.arrive();
    const Release release = train(client, rank, 3, client.wait());
    const std::uint64_t middle = 50'000;
    client.fetch_state(
        rank == 0 ? Range{0, middle} : Range{middle, elements},
        [&](std::span<const double> counts) {
          if (rank == 0) updates.assign(counts.begin(), counts.end());
        },
        [&](std::size_t slot, Range range, const float* from) {
          EXPECT_TRUE(rank == 0 ? range.end <= middle : range.begin >= middle);
          std::copy_n(from, range.size(), slots[slot].data() + range.begin);
        });
    if (rank == 0) parameters.assign(client.parameters().begin(), client.parameters().end());
    fetched.arrive_and_wait();  // nobody pushes while another one fetches
    train(client, rank, 3, release);
    if (rank == 0) whole.assign(client.parameters().begin(), client.parameters().end());
  });
  EXPECT_THAT(updates, ::testing::ElementsAre(3, 3, 3));
  setup.with_state = true;
  run_threads({2, 3, LinkKind::tcp}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout);
    std::copy(parameters.begin(), parameters.end(), client.parameters().begin());
    client.begin(rank == 0, {updates, [&](std::size_t slot, Range range, float* to) {
                               std::copy_n(slots[slot].data() + range.begin, range.size(), to);
                             }});
    client.arrive();
    train(client, rank, 3, client.wait());
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), client.parameters().begin()))
        << "the same bits";
  });
}

TEST(Refusal, WorkersWithDifferentModelsAreToldTheFirstDifference) {
  run_threads({2, 1, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of(rank == 0 ? std::vector<std::uint64_t>{10, 20, 30}
                                                     : std::vector<std::uint64_t>{10, 21, 30});
    Client client(group, setup, {}, kTimeout);
    const std::string failure = message_of<JobFailed>([&] { client.begin(rank == 0); });
    EXPECT_THAT(failure, AllOf(HasSubstr("server 0"), HasSubstr("parameter 1 is tensor1 with 2")));
  });
}

TEST(Refusal, APushTwiceOrOfAStrangersRange) {
  run_threads({1, 1, LinkKind::shm}, [&](int, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of({100});
    Client client(group, setup, {{0, 50}}, kTimeout);
    client.begin(true);
    client.arrive();
    const Release release = client.wait();
    const std::vector<float> gradient(100, 1.0f);
    client.push({0, 30}, gradient.data());
    client.push({20, 50}, gradient.data());
    client.commit(figures_of(release), std::vector<double>{1});
    EXPECT_THAT(message_of<JobFailed>([&] { client.wait(); }),
                AllOf(HasSubstr("server 0"), HasSubstr("elements 20 to 50 twice")));
  });
}

TEST(Refusal, APushThatIsNotWhole) {
  run_threads({1, 1, LinkKind::tcp}, [&](int, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of({100});
    Client client(group, setup, {}, kTimeout);
    client.begin(true);
    client.arrive();
    const Release release = client.wait();
    const std::vector<float> gradient(100, 1.0f);
    client.push({0, 99}, gradient.data());
    client.commit(figures_of(release), std::vector<double>{1});
    EXPECT_THAT(message_of<JobFailed>([&] { client.wait(); }), HasSubstr("99 of 100 elements"));
  });
}

// Before all have come, nothing can begin without it.
TEST(Refusal, ASecondGreetingBeforeAllHaveComeEndsTheJob) {
  std::latch refused(1);
  run_threads({2, 1, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of({100});
    if (rank == 1) {
      RawMember worker(group);
      for (int times = 0; times < 2; ++times) worker.hello(group.head(), setup, {0, 100});
      EXPECT_EQ(worker.refusal(), "it greets a second time");
      refused.count_down();
      return;
    }
    refused.wait();
    Client client(group, setup, {}, kTimeout);
    EXPECT_THAT(message_of<JobFailed>([&] { client.begin(true); }),
                AllOf(HasSubstr("server 0"), HasSubstr("rank 1 ("),
                      HasSubstr("): it greets a second time")));
  });
}

TEST(Refusal, ASecondGreetingAfterTheWelcomeLeavesTheOthersAlone) {
  std::latch refused(1);
  run_threads({2, 1, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of({100});
    if (rank == 1) {
      RawMember worker(group);
      worker.hello(group.head(), setup, {0, 100});
      EXPECT_EQ(worker.wait_for(Kind::welcome), "");
      worker.hello(group.head(), setup, {0, 100});
      EXPECT_EQ(worker.refusal(), "it greets a second time");
      refused.count_down();
      return;
    }
    Client client(group, setup, {}, kTimeout);
    client.begin(true);
    refused.wait();
    client.arrive();
    const std::vector<float> gradient(100, 1.0f);
    client.push({0, 100}, gradient.data());
    client.commit(figures_of(client.wait()), std::vector<double>{1});
    client.wait();
    EXPECT_EQ(client.parameters()[7], -0.5f) << "half a step of two workers";
  });
}

// It is lost, by name, and the others go on.
TEST(Refusal, AWorkerThatArrivesTwiceIsLost) {
  std::latch lost(1);
  run_threads({2, 1, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of({100}, {.kind = pace::Kind::asp});
    if (rank == 1) {
      RawMember worker(group);
      worker.hello(group.head(), setup, {0, 100});
      EXPECT_EQ(worker.wait_for(Kind::welcome), "");
      for (int times = 0; times < 2; ++times) worker.send(group.head(), Arrive{});
      const net::MeshLock lock(group.mesh.loop());
      const auto ended = [&] { return group.mesh.end_of(group.head()) != net::LinkEnd::open; };
      EXPECT_TRUE(group.mesh.loop().drive(ended, after(kTimeout)));
      lost.count_down();
      return;
    }
    Client client(group, setup, {}, kTimeout);
    client.begin(true);
    lost.wait();
    client.arrive();
    const std::vector<float> gradient(100, 1.0f);
    client.push({0, 100}, gradient.data());
    client.commit(figures_of(client.wait()), std::vector<double>{1});
    client.wait();
    EXPECT_EQ(client.parameters()[7], -0.5f) << "half a step of two workers";
  });
}

// The worker says what it should not: its link to the server ends, and the other goes on alone.
template <typename Say>
void expect_lost(const Say& say) {
  run_threads({2, 1, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of({100}, {.kind = pace::Kind::asp});
    if (rank == 1) {
      RawMember worker(group);
      worker.hello(group.head(), setup, {0, 100});
      EXPECT_EQ(worker.wait_for(Kind::welcome), "");
      say(worker, group.head());
      const net::MeshLock lock(group.mesh.loop());
      const auto ended = [&] { return group.mesh.end_of(group.head()) != net::LinkEnd::open; };
      EXPECT_TRUE(group.mesh.loop().drive(ended, after(kTimeout)));
      return;
    }
    Client client(group, setup, {}, kTimeout);
    client.begin(true);
    client.arrive();
    const std::vector<float> gradient(100, 1.0f);
    client.push({0, 100}, gradient.data());
    client.commit(figures_of(client.wait()), std::vector<double>{1});
    client.wait();
    EXPECT_EQ(client.parameters()[7], -0.5f) << "half a step of two workers";
  });
}

TEST(Refusal, AWorkerThatHasMetMoreThanThereAreIsLost) {
  expect_lost([](RawMember& worker, int head) {
    worker.say(head, Arrive{}, std::vector<std::byte>(3 * sizeof(std::int32_t)));
  });
}

TEST(Refusal, APushBeforeTheWelcome) {
  run_threads({2, 1, LinkKind::tcp}, [&](int rank, net::MemberGroup group) {
    const ps::ServerSetup setup = setup_of({100});
    RawMember worker(group);
    if (rank == 1) {
      EXPECT_THAT(worker.refusal(), HasSubstr("rank 0"));
      return;
    }
    worker.hello(group.head(), setup, {0, 100});
    worker.send(group.head(), Piece{1, {0, 100}, {}}, 100 * sizeof(float));
    worker.send(group.head(), Commit{1, {}}, sizeof(double));
    EXPECT_EQ(worker.refusal(), "it pushes before all have begun");
  });
}

// Of two servers the first says what it should not: the other ends, and says why.
template <typename Say>
std::string end_of_second_server(const Say& say) {
  std::string why;
  const auto wait_for_its_end = [](net::Mesh& mesh) {
    const net::MeshLock lock(mesh.loop());
    EXPECT_TRUE(
        mesh.loop().drive([&] { return mesh.end_of(2) != net::LinkEnd::open; }, after(kTimeout)));
  };
  asup::testing::run_ranks(
      3, LinkKind::shm,
      [&](Job& job) {
        const net::MemberGroup group = net::workers_and_servers(job);
        const ps::ServerSetup setup = setup_of({100});
        if (job.member() == 0) {
          RawMember worker(group);
          const Range shard = shards_of(setup, 2)[1];
          worker.hello(group.member_of_server(1), setup, shard);
          worker.send(group.member_of_server(1), Initial{shard, {}}, shard.size() * sizeof(float));
          EXPECT_EQ(worker.wait_for(Kind::welcome), "");
          worker.send(group.head(), Arrive{});  // all have begun
          wait_for_its_end(group.mesh);
        } else if (job.member() == 1) {
          RawMember head(group);
          EXPECT_EQ(head.wait_for(Kind::arrive), "");
          say(head, group.member_of_server(1));
          wait_for_its_end(group.mesh);
        } else {
          Server server(group, {.threads = 1, .patience = kTimeout});
          why = message_of<JobFailed>([&] { server.run(); });
        }
      },
      /*servers=*/2);
  return why;
}

void give(RawMember& head, int server, const Command& command) {
  head.say(server, head_of_command(command), payload_of(command));
}

TEST(Refusal, ACommandAboutAWorkerThatIsNone) {
  for (const int worker : {-1, 1, 70'000}) {
    Command command;
    command.version = 1;
    command.released = {worker};
    EXPECT_THAT(
        end_of_second_server([&](RawMember& head, int server) { give(head, server, command); }),
        AllOf(HasSubstr("server 0 (pid"), HasSubstr("was lost")));
  }
}

TEST(Refusal, ACommandToApplyAPushThatIsNotThere) {
  Command command;
  command.version = 1;
  command.parts = {{0, 0, 5, 1.0}};
  EXPECT_EQ(end_of_second_server([&](RawMember& head, int server) { give(head, server, command); }),
            "server 1: it is to apply push 5 of rank 0, which it does not have");
}

}  // namespace
}  // namespace asup::ps::testing
