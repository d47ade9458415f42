#include "asup/gossip/exchanger.h"

#include <gmock/gmock.h>

#include <barrier>

#include "tests/gossip/group.h"
#include "tests/gossip/theory.h"
#include "tests/support/ranks.h"

namespace asup::gossip::testing {
namespace {

using net::LinkKind;
using ::testing::Each;
using ::testing::FloatEq;

class OnEveryLink : public ::testing::TestWithParam<LinkKind> {
 protected:
  void run(int ranks, const std::function<void(Job&)>& body) {
    asup::testing::run_ranks(ranks, GetParam(), body);
  }
};

constexpr std::size_t kElements = 1000;  // 16 chunks, the last one shorter

TEST_P(OnEveryLink, TwoBecomeTheirAverage) {
  std::barrier all(2);
  run(2, [&](Job& job) {
    Exchanger exchanger(net::workers_of(job), kElements, options_of(Graph::ring(2)));
    Model model(kElements, job.rank() == 0 ? 1.0f : 4.0f);
    exchanger.open(model);
    all.arrive_and_wait();
    if (job.rank() == 0) exchanger.visit(model, true);
    wait_until([&] { return exchanger.stats().exchanges == 1; }, "the exchange");
    exchanger.visit(model, false);
    EXPECT_THAT(model, Each(2.5f));
    EXPECT_EQ(exchanger.stats().bytes_sent, kElements * sizeof(float));
    all.arrive_and_wait();
  });
}

// Numbers that bf16 has, and no others: exact, for half of the bytes.
TEST_P(OnEveryLink, InBf16HalfOfTheBytesTravel) {
  std::barrier all(2);
  run(2, [&](Job& job) {
    ExchangerOptions options = options_of(Graph::ring(2));
    options.in_bf16 = true;
    Exchanger exchanger(net::workers_of(job), kElements, options);
    Model model(kElements);
    for (std::size_t i = 0; i < kElements; ++i)
      model[i] = static_cast<float>(i % 200) + (job.rank() == 0 ? 1.0f : 3.0f);
    exchanger.open(model);
    all.arrive_and_wait();
    if (job.rank() == 0) exchanger.visit(model, true);
    wait_until([&] { return exchanger.stats().exchanges == 1; }, "the exchange");
    exchanger.visit(model, false);
    for (std::size_t i = 0; i < kElements; ++i)
      ASSERT_EQ(model[i], static_cast<float>(i % 200) + 2.0f);
    EXPECT_EQ(exchanger.stats().bytes_sent, kElements * 2);
    all.arrive_and_wait();
  });
}

// One exchange after the other, by the partners that the seeds give: what comes out is known, and
// the distance from consensus falls as the theory of these graphs says. Every element is a worker's
// value in a run of its own, scaled.
TEST_P(OnEveryLink, PairsFollowTheTheory) {
  constexpr int kRanks = 5, kExchanges = 40;
  for (const char* name : {"ring", "exponential"}) {
    const Graph graph = graph_of(name, kRanks);
    std::vector<Partners> partners;
    for (int rank = 0; rank < kRanks; ++rank) partners.emplace_back(graph, rank, 3);
    std::vector<std::pair<int, int>> pairs;
    Values values{8, 0, -3, 1, 4};
    const double before = squared_distance(values);
    for (int i = 0; i < kExchanges; ++i) {
      const int asker = i % kRanks;
      const int partner = partners[static_cast<std::size_t>(asker)].next().back();
      pairs.emplace_back(asker, partner);
      auto &a = values[static_cast<std::size_t>(asker)],
           &b = values[static_cast<std::size_t>(partner)];
      a = b = (a + b) / 2;
    }
    EXPECT_LT(squared_distance(values), before * std::pow(contraction(graph), kExchanges));

    std::barrier all(kRanks);
    const Values first{8, 0, -3, 1, 4};
    run(kRanks, [&](Job& job) {
      const auto rank = static_cast<std::size_t>(job.rank());
      Exchanger exchanger(net::workers_of(job), kElements, options_of(graph, 3));
      Model model(kElements);
      for (std::size_t i = 0; i < kElements; ++i)
        model[i] = static_cast<float>(first[rank] * static_cast<double>(i));
      exchanger.open(model);
      std::uint64_t expected = 0;
      for (const auto& [asker, partner] : pairs) {
        all.arrive_and_wait();
        if (job.rank() == asker) exchanger.visit(model, true);
        if (job.rank() == asker || job.rank() == partner) ++expected;
        wait_until([&] { return exchanger.stats().exchanges == expected; }, "the exchange");
        exchanger.visit(model, false);
      }
      for (std::size_t i = 0; i < kElements; ++i)
        ASSERT_NEAR(model[i], values[rank] * static_cast<double>(i), 1e-3);
      all.arrive_and_wait();
    });
  }
}

// All at once, as it comes, with gradients between: the sum of the models is what the gradients
// make of it, and when these end, all come together.
TEST_P(OnEveryLink, TheMeanIsKeptWhileAllTrainAtTheirOwnPace) {
  constexpr int kRanks = 4;
  std::barrier all(kRanks);
  std::vector<Model> models(kRanks);
  std::vector<double> added(kRanks);
  std::atomic<int> trained = 0, done = 0;
  run(kRanks, [&](Job& job) {
    const auto rank = static_cast<std::size_t>(job.rank());
    Model& model = models[rank];
    model.assign(kElements, static_cast<float>(rank));
    Exchanger exchanger(net::workers_of(job), kElements, options_of(Graph::ring(kRanks)));
    exchanger.open(model);
    for (int step = 0; step < 100 + 100 * job.rank(); ++step) {
      const float gradient = static_cast<float>(step % 7) - 2.5f;
      for (float& value : model) value += gradient;
      added[rank] += gradient;
      exchanger.visit(model, true);
    }
    // Each has a hundred exchanges after the last gradient, and goes on asking until all have: it
    // may be needed between the others.
    const auto go_on_until = [&](const auto& enough, const char* what) {
      wait_until([&] { return exchanger.visit(model, true), enough(); }, what);
    };
    ++trained;
    go_on_until([&] { return trained == kRanks; }, "the end of the others' gradients");
    const std::uint64_t so_far = exchanger.stats().exchanges;
    go_on_until([&] { return exchanger.stats().exchanges >= so_far + 100; }, "a hundred exchanges");
    ++done;
    go_on_until([&] { return done == kRanks; }, "the others");
    exchanger.synchronize(model);
    all.arrive_and_wait();
  });
  const double mean = (0 + 1 + 2 + 3 + added[0] + added[1] + added[2] + added[3]) / kRanks;
  for (std::size_t i = 0; i < kElements; ++i) {
    double sum = 0;
    for (const Model& model : models) sum += model[i];
    ASSERT_NEAR(sum / kRanks, mean, 1e-3);
  }
  for (const Model& model : models)
    EXPECT_THAT(model, Each(::testing::FloatNear(float(mean), 0.1f)));
}

// Whoever asks whom at the same moment: every round has an exchange.
TEST_P(OnEveryLink, TwoThatAskEachOtherAtOnceDoNotMissEachOther) {
  std::barrier all(2);
  run(2, [&](Job& job) {
    Exchanger exchanger(net::workers_of(job), kElements, options_of(Graph::ring(2)));
    Model model(kElements, static_cast<float>(job.rank()));
    exchanger.open(model);
    for (std::uint64_t round = 1; round <= 50; ++round) {
      all.arrive_and_wait();
      exchanger.visit(model, true);
      wait_until([&] { return exchanger.stats().exchanges >= round; }, "an exchange a round");
    }
    all.arrive_and_wait();
    exchanger.synchronize(model);
    EXPECT_THAT(model, Each(FloatEq(0.5f)));
    all.arrive_and_wait();
  });
}

TEST_P(OnEveryLink, WhoIsBusyIsPassedOver) {
  const Graph graph = Graph::complete(3);
  const std::uint64_t seed = seed_for(graph, 0, 2);
  std::barrier all(3);
  run(3, [&](Job& job) {
    Exchanger exchanger(net::workers_of(job), kElements, options_of(graph, seed));
    Model model(kElements, static_cast<float>(job.rank()));
    exchanger.open(model);
    if (job.rank() == 2) exchanger.synchronize(model);
    all.arrive_and_wait();
    if (job.rank() == 0) {
      EXPECT_TRUE(exchanger.visit(model, true).asked);
      wait_until([&] { return exchanger.stats().exchanges == 1; }, "the exchange with rank 1");
      EXPECT_EQ(exchanger.stats().refused, 1u);
      exchanger.visit(model, false);
      EXPECT_THAT(model, Each(0.5f));
    }
    all.arrive_and_wait();
    if (job.rank() == 1) exchanger.synchronize(model);
    all.arrive_and_wait();
    if (job.rank() != 0) return all.arrive_and_wait();
    exchanger.visit(model, true);  // all refuse: it goes on alone
    wait_until([&] { return exchanger.stats().refused == 3; }, "the refusals");
    exchanger.synchronize(model);
    EXPECT_EQ(exchanger.stats().exchanges, 1u);
    EXPECT_THAT(model, Each(0.5f));
    all.arrive_and_wait();
  });
}

// Rank 2 is in the job and says nothing.
TEST_P(OnEveryLink, WhoIsSilentIsPassedOver) {
  const Graph graph = Graph::complete(3);
  ExchangerOptions options = options_of(graph, seed_for(graph, 0, 2));
  options.patience = Seconds(2);
  std::barrier all(3);
  run(3, [&](Job& job) {
    const net::MemberGroup group = net::workers_of(job);
    if (job.rank() == 2) return all.arrive_and_wait();
    Exchanger exchanger(group, kElements, options);
    Model model(kElements, static_cast<float>(job.rank()));
    exchanger.open(model);
    wait_until(
        [&] {
          exchanger.visit(model, job.rank() == 0);
          return exchanger.stats().exchanges > 0;
        },
        "an exchange");
    exchanger.synchronize(model);
    EXPECT_THAT(model, Each(0.5f));
    all.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Links, OnEveryLink,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return asup::testing::name_of(info.param); });

}  // namespace
}  // namespace asup::gossip::testing
