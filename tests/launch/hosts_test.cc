#include "asup/launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/thrown.h"

namespace asup::launch {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

// "alpha 0+2, beta 2+2 s0 s1": the host, its first rank, how many, its servers.
std::string placed(int ranks, const std::string& hosts, int servers = 0) {
  std::string text;
  for (const Placement& p : place(ranks, parse_hosts(hosts), servers)) {
    text += fmt::format("{}{} {}+{}", text.empty() ? "" : ", ", p.host.name, p.first_rank, p.count);
    for (const int server : p.servers) text += fmt::format(" s{}", server);
  }
  return text;
}

TEST(Hosts, AreRead) {
  const auto hosts = parse_hosts("alpha,me@beta:4,10.0.0.1,[fe80::1]:2,fe80::2,localhost");
  ASSERT_EQ(hosts.size(), 6u);
  EXPECT_EQ(hosts[0].name, "alpha");
  EXPECT_EQ(hosts[0].slots, 0);
  EXPECT_EQ(hosts[1].name, "me@beta");
  EXPECT_EQ(hosts[1].slots, 4);
  EXPECT_EQ(hosts[3].name, "fe80::1");
  EXPECT_EQ(hosts[3].slots, 2);
  EXPECT_EQ(hosts[4].name, "fe80::2");
  EXPECT_TRUE(hosts[5].local());
}

TEST(Hosts, WrongOnesAreNamed) {
  for (const char* wrong : {"", "alpha,", "alpha:0", "alpha:x", "alpha:2x", "alpha:2147483647",
                            ":2", "a b", "-oProxy=x"})
    EXPECT_THAT(message_of<BadInput>([&] { parse_hosts(wrong); }), HasSubstr("--hosts")) << wrong;
  EXPECT_THAT(message_of<BadInput>([] { parse_hosts("alpha,alpha"); }), HasSubstr("write alpha:2"));
}

TEST(Place, OneRankAHostByDefault) { EXPECT_EQ(placed(0, "a,b,c"), "a 0+1, b 1+1, c 2+1"); }

TEST(Place, AsManyAsThereAreSlots) { EXPECT_EQ(placed(0, "a:2,b:3,c"), "a 0+2, b 2+3, c 5+1"); }

TEST(Place, EquallyWhereNoSlotsAreGiven) {
  EXPECT_EQ(placed(5, "a,b"), "a 0+3, b 3+2");
  EXPECT_EQ(placed(1, "a,b"), "a 0+1");
}

TEST(Place, FillsSlotsInOrder) {
  EXPECT_EQ(placed(3, "a:2,b:2"), "a 0+2, b 2+1");
  EXPECT_EQ(placed(2, "a:2,b:2"), "a 0+2");
}

TEST(Place, ServersGoRoundTheHosts) {
  EXPECT_EQ(placed(2, "a", 2), "a 0+2 s0 s1");
  EXPECT_EQ(placed(0, "a,b", 2), "a 0+1 s0, b 1+1 s1");
  EXPECT_EQ(placed(4, "a,b", 3), "a 0+2 s0 s2, b 2+2 s1");
}

TEST(Place, HostsWithoutRanksGetServersFirst) {
  EXPECT_EQ(placed(2, "a,b,c", 1), "a 0+1, b 1+1, c 2+0 s0");
  EXPECT_EQ(placed(4, "a:4,b:4,c:4", 3), "a 0+4 s2, b 4+0 s0, c 4+0 s1");
  EXPECT_EQ(placed(4, "a:4,b:4,c:4", 1), "a 0+4, b 4+0 s0");
}

TEST(Place, TooManyAreRefused) {
  EXPECT_EQ(message_of<BadInput>([] { place(5, parse_hosts("a:2,b:2")); }),
            "5 ranks do not fit into the 4 slots of --hosts");
}

}  // namespace
}  // namespace asup::launch
