#include "asup/bench/compare/strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Ways, KnowTheirServers) {
  const auto ways = chosen(known_ways(), {"asup", "diloco", "bsp", "local"}, "--ways");
  ASSERT_EQ(ways.size(), 4u);
  EXPECT_TRUE(ways[0].has_servers() && ways[2].has_servers());
  EXPECT_FALSE(ways[1].has_servers() || ways[3].has_servers());
  EXPECT_TRUE((Way{"mine", "--sync=server --pace=asp"}).has_servers());
  EXPECT_TRUE((Way{"mine", "--sync local --then asup"}).has_servers());
  EXPECT_TRUE((Way{"mine", "--sync local"}).has_servers("--then server --at 50%"));
  EXPECT_FALSE((Way{"mine", "--sync local"}).has_servers("--lr 1"));
}

TEST(Ways, OfStragglersAreThoseThroughServersBesideAllReduceWithAndWithoutBalance) {
  EXPECT_THAT(usual_for_stragglers(),
              ElementsAre("allreduce", "balance", "bsp", "ssp", "asp", "asup", "frozen"));
}

TEST(Ways, AreReadFromTheirFlags) {
  const Way way = parse_way("local4=--sync local  --every=4");
  EXPECT_EQ(way.name, "local4");
  EXPECT_THAT(way.words(), ElementsAre("--sync", "local", "--every=4"));
}

TEST(Ways, RefuseWhatIsNone) {
  const auto complaint = [](const std::string& text) {
    return message_of<BadInput>([&] { parse_way(text); });
  };
  EXPECT_THAT(complaint("local4"), HasSubstr("--way 'local4': write a name"));
  EXPECT_THAT(complaint("../up=--sync local"), HasSubstr("of letters, digits and dashes"));
  EXPECT_THAT(complaint("=--sync local"), HasSubstr("write a name"));
  EXPECT_THAT(complaint("empty="), HasSubstr("write a name"));
  EXPECT_THAT(complaint("local=--sync local"), HasSubstr("there is one already"));
  EXPECT_THAT(message_of<BadInput>([] { chosen(known_ways(), {"lokal"}, "--ways"); }),
              HasSubstr("--ways lokal: there is allreduce, balance, "));
}

}  // namespace
}  // namespace asup::bench
