#include "asup/gossip/partners.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/gossip/theory.h"

namespace asup::gossip {
namespace {

using ::testing::UnorderedElementsAre;
using testing::Values;

TEST(Partners, AreAllAskedInAnyOrder) {
  Partners partners(Graph::exponential(8), 3, 5);
  std::map<int, int> first;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<int> order = partners.next();
    EXPECT_THAT(order, UnorderedElementsAre(1, 2, 4, 5, 7));
    ++first[order.back()];
  }
  for (const auto& [partner, times] : first) EXPECT_NEAR(times, 200, 50) << partner;
  partners.remove(4);
  EXPECT_THAT(partners.next(), ::testing::Not(::testing::Contains(4)));
}

TEST(Partners, FollowTheSeed) {
  Partners one(Graph::complete(9), 2, 7), same(Graph::complete(9), 2, 7),
      other(Graph::complete(9), 2, 8);
  bool differs = false;
  for (int i = 0; i < 10; ++i) {
    const auto order = one.next();
    EXPECT_EQ(order, same.next());
    differs = differs || order != other.next();
  }
  EXPECT_TRUE(differs);
}

// The mean over many runs of the squared distance from consensus, against the theory's bound; the
// mean of the values never moves. The choice of partners is the only thing that is random, and it
// follows seeds: this always computes the same.
TEST(Partners, BringAllTogetherAsFastAsTheorySays) {
  constexpr int kRanks = 8, kExchanges = 60, kRuns = 400;
  std::map<std::string, double> reached;
  for (const char* name : {"ring", "exponential", "random"}) {
    const Graph graph = graph_of(name, kRanks);
    const double rate = testing::contraction(graph);
    Values mean_distance(kExchanges + 1);
    for (int run = 0; run < kRuns; ++run) {
      std::vector<Partners> partners;
      for (int rank = 0; rank < kRanks; ++rank)
        partners.emplace_back(graph, rank, static_cast<std::uint64_t>(run));
      std::mt19937_64 wakes(static_cast<std::uint64_t>(run));
      Values values{1, 0, 0, 0, 0, 0, 0, 0};
      for (int i = 0; i <= kExchanges; ++i) {
        mean_distance[static_cast<std::size_t>(i)] += testing::squared_distance(values) / kRuns;
        const auto asker = static_cast<std::size_t>(wakes() % kRanks);
        const auto partner = static_cast<std::size_t>(partners[asker].next().back());
        values[asker] = values[partner] = (values[asker] + values[partner]) / 2;
      }
      EXPECT_NEAR(testing::mean_of(values), 1.0 / kRanks, 1e-12);
    }
    for (int i = 0; i <= kExchanges; i += 10)
      EXPECT_LE(mean_distance[static_cast<std::size_t>(i)],
                1.05 * mean_distance[0] * std::pow(rate, i))
          << name << " after " << i;
    reached[name] = mean_distance[kExchanges];
  }
  EXPECT_GT(reached["ring"], 4 * reached["exponential"]);
}

// The eigenvalue that the bound is made of, where it can be written down.
TEST(Theory, KnowsTheEigenvalues) {
  for (const int n : {4, 8, 9}) {
    EXPECT_NEAR(testing::contraction(Graph::complete(n)), 1 - 1.0 / (n - 1), 1e-9);
    EXPECT_NEAR(testing::contraction(Graph::ring(n)), 1 - (1 - std::cos(2 * M_PI / n)) / n, 1e-6);
  }
}

}  // namespace
}  // namespace asup::gossip
