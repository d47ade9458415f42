// Workers of which each has a part of one model.
#include <gmock/gmock.h>

#include <latch>
#include <mutex>
#include <set>

#include "asup/base/error.h"
#include "tests/ps/group.h"

namespace asup::ps::testing {
namespace {

using net::LinkKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Seconds kTimeout{120};
constexpr double kLr[] = {0.01};

// Tensors of three parts; the second is cut by shards, and the state of a slot is several messages.
ServerSetup whole_setup(pace::Options pace = {}) {
  ServerSetup setup = setup_of({5000, 20'016, 1'200'000, 90'000, 16}, pace);
  setup.rules[0].kind = kernels::Rule::Kind::adam;
  return setup;
}

// Worker w of two teams has part w / 2, as in a grid of stages.
ServerSetup cut_setup(pace::Options pace = {}) {
  ServerSetup setup = whole_setup(pace);
  const auto begin_of = [&](std::size_t tensor) {
    return setup.layout.tensors[tensor].range.begin;
  };
  setup.parts = {
      {0, begin_of(2)}, {begin_of(2), begin_of(3)}, {begin_of(3), setup.layout.elements}};
  setup.teams = {0, 1, 0, 1, 0, 1};
  return setup;
}

Range part_of(const ServerSetup& setup, int rank) {
  return setup.parts.empty() ? Range{0, setup.layout.elements}
                             : setup.parts[static_cast<std::size_t>(rank / 2)];
}
std::size_t place_of(const ServerSetup& setup, int rank) {
  return setup.parts.empty() ? 0 : static_cast<std::size_t>(rank / 2);
}

Figures figures_of(const Release& release, std::uint64_t samples = 1) {
  Figures figures;
  figures.version = release.version;
  figures.samples = samples;
  return figures;
}

// Of an element of the whole model, by the team.
float gradient_of(float parameter, std::uint64_t element, int team) {
  return parameter * (0.1f + 0.01f * static_cast<float>(element % 7)) +
         0.5f * static_cast<float>(team);
}

Release train(Client& client, Range part, int team, int steps, Release release) {
  std::vector<float> gradient(part.size());
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = gradient_of(client.parameters()[i], part.begin + i, team);
    client.push({0, gradient.size()}, gradient.data());
    client.commit(figures_of(release), kLr);
    release = client.wait();
  }
  return release;
}

// The whole model and its rule's state, as two teams have them.
struct Model {
  std::vector<float> parameters;
  std::vector<double> updates;
  std::vector<std::vector<float>> slots;
  explicit Model(const ServerSetup& setup)
      : parameters(setup.layout.elements),
        updates(setup.layout.tensors.size()),
        slots(state_slots(setup), std::vector<float>(setup.layout.elements)) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i] = static_cast<float>(i % 11) - 5.0f;
  }
  bool operator==(const Model&) const = default;
};

// Each team's workers train some steps from the model on, and the first team's fetch what came of
// it.
Model trained(const ServerSetup& setup, const Model& from, int workers, int servers,
              LinkKind links) {
  Model to(setup);
  run_threads({workers, servers, links}, [&](int rank, net::MemberGroup group) {
    const Range part = part_of(setup, rank);
    const std::size_t first = parts_in(setup.layout, part).front().tensor;
    Client client(group, setup, {}, kTimeout, place_of(setup, rank));
    ASSERT_EQ(client.parameters().size(), part.size());
    std::copy_n(from.parameters.begin() + static_cast<std::ptrdiff_t>(part.begin), part.size(),
                client.parameters().begin());
    const auto first_update = from.updates.begin() + static_cast<std::ptrdiff_t>(first);
    client.begin(rank % 2 == 0 && (setup.parts.empty() ? rank == 0 : true),
                 {{first_update, first_update + std::ssize(parts_in(setup.layout, part))},
                  [&](std::size_t slot, Range range, float* out) {
                    std::copy_n(from.slots[slot].begin() +
                                    static_cast<std::ptrdiff_t>(part.begin + range.begin),
                                range.size(), out);
                  }});
    client.arrive();
    train(client, part, rank % 2, 3, client.wait());
    if (rank % 2 != 0) return;
    std::copy(client.parameters().begin(), client.parameters().end(),
              to.parameters.begin() + static_cast<std::ptrdiff_t>(part.begin));
    client.fetch_state(
        {0, part.size()},
        [&](std::span<const double> updates) {
          std::copy(updates.begin(), updates.end(),
                    to.updates.begin() + static_cast<std::ptrdiff_t>(first));
        },
        [&](std::size_t slot, Range range, const float* in) {
          std::copy_n(
              in, range.size(),
              to.slots[slot].begin() + static_cast<std::ptrdiff_t>(part.begin + range.begin));
        });
  });
  return to;
}

TEST(Teams, InStepTheyDoWhatWorkersWithTheWholeModelDo) {
  ServerSetup whole = whole_setup(), cut = cut_setup();
  const Model first(whole);
  const Model half = trained(whole, first, 2, 1, LinkKind::shm);
  EXPECT_THAT(half.updates, ElementsAre(3, 3, 3, 3, 3));
  for (const auto& [servers, links] :
       {std::pair{1, LinkKind::shm}, {3, LinkKind::shm}, {2, LinkKind::tcp}})
    EXPECT_TRUE(trained(cut, first, 6, servers, links) == half) << servers << " servers";
  whole.with_state = cut.with_state = true;
  const Model end = trained(whole, half, 2, 1, LinkKind::shm);
  EXPECT_TRUE(trained(cut, half, 6, 3, LinkKind::shm) == end);
  EXPECT_TRUE(trained(cut, half, 6, 2, LinkKind::tcp) == end);
}

// Learning rates differ where teams are at different steps.
TEST(Teams, OfDifferentLearningRatesTheMeanCounts) {
  ServerSetup setup = setup_of({32, 32});
  setup.parts = {{0, 32}, {32, 64}};
  setup.teams = {0, 1, 0, 1};
  run_threads({4, 1, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    Client client(group, setup, {}, kTimeout, static_cast<std::size_t>(rank / 2));
    client.begin(rank % 2 == 0);
    client.arrive();
    const Release release = client.wait();
    const std::vector<float> gradient(32, 1.0f);
    client.push({0, 32}, gradient.data());
    client.commit(figures_of(release), std::vector<double>{rank % 2 == 0 ? 0.5 : 0.25});
    client.wait();
    EXPECT_FLOAT_EQ(client.parameters()[7], -0.375f);
  });
}

// Gradients are clipped by the norm of all parts together.
TEST(Teams, AreClippedByTheNormOfAllParts) {
  ServerSetup setup = setup_of({32, 32}, {.kind = pace::Kind::asp});
  setup.parts = {{0, 32}, {32, 64}};
  setup.teams = {0, 0};
  for (const int servers : {1, 2})
    run_threads({2, servers, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
      Client client(group, setup, {}, kTimeout, static_cast<std::size_t>(rank));
      client.begin(true);
      client.arrive();
      Figures figures = figures_of(client.wait());
      const std::vector<float> gradient(32, rank == 0 ? 3.0f : 4.0f);
      figures.norm = std::sqrt(32.0) * gradient[0];
      figures.clip = std::sqrt(32.0);
      client.push({0, 32}, gradient.data());
      client.commit(figures, std::vector<double>{1});
      client.wait();
      EXPECT_FLOAT_EQ(client.parameters()[3], -gradient[3] / 5);
    });
}

class TeamsOfEveryPace : public ::testing::TestWithParam<pace::Kind> {};

// Whatever the pace, all of a team work on the same samples, with parameters of the same version,
// and teams share all samples, each once. One of the first team tells of the samples and their
// loss.
TEST_P(TeamsOfEveryPace, WorkOnTheSameSamples) {
  ServerSetup setup = cut_setup({.kind = GetParam(), .staleness = 1, .gather = 2});
  setup.work = work_of(20, {5, 13});
  std::mutex mutex;
  std::vector<std::vector<Release>> releases(6);
  std::map<std::pair<int, std::uint64_t>, std::set<float>> at_sync_point;  // by part and step
  run_threads({6, 2, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const Range part = part_of(setup, rank);
    Client client(group, setup, {}, kTimeout, place_of(setup, rank));
    client.begin(rank % 2 == 0);
    const std::vector<float> gradient(part.size(), 1.0f);
    client.arrive();
    for (;;) {
      const Release release = client.wait();
      releases[static_cast<std::size_t>(rank)].push_back(release);
      if (release.next == Release::Next::end) break;
      if (release.next == Release::Next::sync_point) {
        const std::lock_guard lock(mutex);
        at_sync_point[{rank / 2, release.step}].insert(client.parameters()[1]);
        client.arrive({0, 1, 2, 3, 4, 5});
        continue;
      }
      client.push({0, part.size()}, gradient.data());
      client.commit(figures_of(release, rank / 2 == 1 ? release.end - release.begin : 0), kLr);
    }
  });
  std::multiset<std::uint64_t> samples;
  for (std::size_t rank = 0; rank < 6; ++rank) {
    const auto& own = releases[rank];
    const auto& first = releases[rank % 2];
    ASSERT_EQ(own.size(), first.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(
          std::tuple(own[i].next, own[i].version, own[i].step, own[i].begin, own[i].end),
          std::tuple(first[i].next, first[i].version, first[i].step, first[i].begin, first[i].end));
      if (rank < 2 && own[i].next == Release::Next::lease)
        for (std::uint64_t sample = own[i].begin; sample < own[i].end; ++sample)
          samples.insert(own[i].step * 8 + sample);
    }
  }
  ASSERT_EQ(samples.size(), 160u);
  for (std::uint64_t sample = 0; sample < 160; ++sample) EXPECT_EQ(samples.count(sample), 1u);
  for (int part = 0; part < 3; ++part)
    for (const std::uint64_t step : {5u, 13u})
      EXPECT_EQ((at_sync_point[{part, step}].size()), 1u) << part << ", " << step;
}

INSTANTIATE_TEST_SUITE_P(Paces, TeamsOfEveryPace,
                         ::testing::Values(pace::Kind::bsp, pace::Kind::ssp, pace::Kind::asp,
                                           pace::Kind::kasync, pace::Kind::adaptive),
                         [](const auto& info) { return std::string(pace::name_of(info.param)); });

// A team that has lost a member counts no more; the others do its samples.
TEST(Teams, GoOnWithoutOneThatLostAMember) {
  ServerSetup setup = cut_setup({.kind = pace::Kind::asp});
  setup.work = work_of(6, {});
  std::mutex mutex;
  std::multiset<std::uint64_t> samples;
  std::latch all_push(3);
  run_threads({6, 2, LinkKind::shm}, [&](int rank, net::MemberGroup group) {
    const Range part = part_of(setup, rank);
    const std::vector<float> gradient(part.size(), 1.0f);  // outlives the client
    Client client(group, setup, {}, kTimeout, place_of(setup, rank));
    client.begin(rank % 2 == 0);
    client.arrive();
    for (;;) {
      const Release release = client.wait();
      if (release.next == Release::Next::end) break;
      client.push({0, part.size()}, gradient.data());
      if (rank % 2 == 1) all_push.arrive_and_wait();
      if (rank == 3) return;  // leaves with a push under way
      client.commit(figures_of(release, rank < 2 ? release.end - release.begin : 0), kLr);
      if (rank % 2 == 1) return;
      if (rank > 0) continue;
      const std::lock_guard lock(mutex);
      for (std::uint64_t sample = release.begin; sample < release.end; ++sample)
        samples.insert(release.step * 8 + sample);
    }
  });
  ASSERT_EQ(samples.size(), 48u);
  for (std::uint64_t sample = 0; sample < 48; ++sample) EXPECT_EQ(samples.count(sample), 1u);
}

std::string complaint_about(const ServerSetup& setup, int workers) {
  try {
    require_sense(setup, workers, 1);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "none";
}

TEST(Teams, AreOfOneSizeAndHaveEveryPart) {
  const ServerSetup sound = cut_setup();
  EXPECT_EQ(complaint_about(sound, 6), "none");
  EXPECT_EQ(parse_setup(to_text(sound)).parts, sound.parts);
  EXPECT_EQ(parse_setup(to_text(sound)).teams, sound.teams);
  EXPECT_THAT(complaint_about(sound, 5), HasSubstr("the teams of 6 workers are told"));
  ServerSetup setup = sound;
  setup.teams = {0, 1, 0, 1, 1, 1};
  EXPECT_THAT(complaint_about(setup, 6), HasSubstr("team 0 has 2 workers"));
  setup = sound;
  setup.parts[1].begin += 16;
  EXPECT_THAT(complaint_about(setup, 6), HasSubstr("the one before ends at"));
  setup = sound;
  setup.parts.pop_back();
  setup.teams = {0, 1, 0, 1};
  EXPECT_THAT(complaint_about(setup, 4), HasSubstr("the parts of the model end at element"));
}

}  // namespace
}  // namespace asup::ps::testing
