#include "asup/gossip/graph.h"

#include <gmock/gmock.h>

#include <set>
#include <tuple>

#include "asup/base/error.h"
#include "tests/support/thrown.h"

namespace asup::gossip {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string refusal(const std::string& text, int ranks) {
  return asup::testing::message_of<BadInput>([&] { graph_of(text, ranks); });
}

TEST(Graph, RingHasNeighbours) {
  EXPECT_THAT(Graph::ring(5).partners(0), ElementsAre(1, 4));
  EXPECT_THAT(Graph::ring(5).partners(3), ElementsAre(2, 4));
  EXPECT_THAT(Graph::ring(2).partners(1), ElementsAre(0));
  EXPECT_THAT(Graph::ring(1).partners(0), IsEmpty());
}

TEST(Graph, ExponentialHasPowersOfTwo) {
  EXPECT_THAT(Graph::exponential(16).partners(0), ElementsAre(1, 2, 4, 8, 12, 14, 15));
  EXPECT_THAT(Graph::exponential(5).partners(1), ElementsAre(0, 2, 3, 4));
}

TEST(Graph, EveryNamedOneIsConnectedAndUndirected) {
  for (const char* name : {"ring", "random", "exponential"})
    for (const int ranks : {2, 3, 4, 7, 8, 33}) {
      const Graph graph = graph_of(name, ranks);
      EXPECT_TRUE(graph.connected()) << name << " of " << ranks;
      for (int a = 0; a < ranks; ++a) {
        EXPECT_FALSE(graph.joined(a, a));
        for (int b = 0; b < ranks; ++b) EXPECT_EQ(graph.joined(a, b), graph.joined(b, a));
      }
    }
}

TEST(Graph, WhoIsLeftStaysConnected) {
  Graph ring = Graph::ring(5);
  ring.remove(0);
  EXPECT_THAT(ring.partners(0), IsEmpty());
  EXPECT_THAT(ring.partners(1), ElementsAre(2, 4));
  ring.remove(2);
  EXPECT_THAT(ring.partners(1), ElementsAre(3, 4));
  Graph star = graph_of("0-1,0-2,0-3", 4);
  star.remove(0);
  EXPECT_THAT(star.partners(1), ElementsAre(2, 3));
}

TEST(Graph, IsReadFromEdges) {
  const Graph path = graph_of("0-1,2-1", 3);
  EXPECT_THAT(path.partners(1), ElementsAre(0, 2));
  EXPECT_THAT(path.partners(2), ElementsAre(1));
}

// What one sends to another, that one hears; all are reached; and weights of equal size keep the
// mean, since all send to as many as they hear from.
TEST(Graph, InARoundSendsMeetReceivesAndReachEverybody) {
  for (const char* name : {"ring", "random", "exponential"})
    for (int ranks = 2; ranks <= 17; ++ranks) {
      const Graph graph = graph_of(name, ranks);
      std::set<int> reached{0};
      for (std::uint64_t round = 0; round < 16; ++round) {
        std::set<std::pair<int, int>> sent, heard;
        for (int rank = 0; rank < ranks; ++rank) {
          const Round mine = graph.round(rank, round);
          EXPECT_EQ(mine.to.size(), mine.from.size());
          EXPECT_EQ(mine.to.size(), graph.round(0, 0).to.size());
          for (const int to : mine.to) {
            sent.insert({rank, to});
            EXPECT_TRUE(graph.joined(rank, to));
          }
          for (const int from : mine.from) heard.insert({from, rank});
        }
        EXPECT_EQ(sent, heard);
        const std::set<int> before = reached;
        for (const auto& [from, to] : sent)
          if (before.contains(from)) reached.insert(to);
      }
      EXPECT_EQ(reached.size(), static_cast<std::size_t>(ranks));
    }
}

TEST(Graph, RoundsTakeNeighboursOrOneByTurns) {
  EXPECT_THAT(Graph::ring(2).round(0, 0).to, ElementsAre(1));
  EXPECT_THAT(Graph::ring(5).round(0, 3).from, ElementsAre(1, 4));
  EXPECT_THAT(Graph::ring(1).round(0, 0).to, IsEmpty());
  EXPECT_THAT(Graph::exponential(1).round(0, 7).from, IsEmpty());
  // 1, 2, 4 places on, and again.
  const Graph six = Graph::exponential(6);
  for (const auto& [number, to, from] :
       {std::tuple(0, 5, 3), std::tuple(1, 0, 2), std::tuple(2, 2, 0), std::tuple(3, 5, 3)}) {
    EXPECT_THAT(six.round(4, static_cast<std::uint64_t>(number)).to, ElementsAre(to));
    EXPECT_THAT(six.round(4, static_cast<std::uint64_t>(number)).from, ElementsAre(from));
  }
}

TEST(Graph, RefusesWhatCannotWork) {
  EXPECT_THAT(refusal("0-1,2-3", 4), HasSubstr("'0-1,2-3' is not connected: nothing reaches rank "
                                               "2, 3 from rank 0"));
  EXPECT_THAT(refusal("0-1", 3), HasSubstr("not connected"));
  EXPECT_THAT(refusal("", 3), HasSubstr("not connected"));
  EXPECT_THAT(refusal("ring", 1), HasSubstr("use two workers or more"));
  EXPECT_THAT(refusal("star", 3), HasSubstr("'star' is no edge; use ring, random, exponential"));
  EXPECT_THAT(refusal("0-3", 3), HasSubstr("there is no rank 3 in '0-3': ranks are 0 to 2"));
  EXPECT_THAT(refusal("0-1,1+2", 3), HasSubstr("'1+2' is no edge"));
  EXPECT_THAT(refusal("0-0", 2), HasSubstr("'0-0' is no edge between two ranks"));
  EXPECT_THAT(refusal("0-1x", 2), HasSubstr("'0-1x' is no edge between two ranks"));
  EXPECT_THAT(refusal("0-99999999999", 2), HasSubstr("is no edge"));
}

}  // namespace
}  // namespace asup::gossip
