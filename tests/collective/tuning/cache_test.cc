#include "asup/collective/tuning/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/collective/tuning/surroundings.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::collective::tuning {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;

Rates odd_rates() {
  Rates rates = usual_rates("tcp", 3);
  rates.near.latency = 1.0 / 3;
  rates.far.wire_byte = 8.0 / 1e9 / 7;
  return rates;
}

TEST(RatesCache, RemembersEveryBit) {
  const TemporaryFolder folder;
  const RatesCache cache(folder.file("not/yet/there"));
  EXPECT_FALSE(cache.find("a job"));
  cache.remember("a job", odd_rates());
  ASSERT_TRUE(cache.find("a job"));
  EXPECT_EQ(hash_of(*cache.find("a job")), hash_of(odd_rates()));
  EXPECT_FALSE(cache.find("another job"));
  cache.remember("a job", usual_rates("shm", 2));
  EXPECT_EQ(*cache.find("a job"), usual_rates("shm", 2));
}

TEST(RatesCache, TakesNothingThatIsWrong) {
  const TemporaryFolder folder;
  const RatesCache cache(folder.path());
  cache.remember("a job", odd_rates());
  const std::string path = cache.file("a job"), good = read_file(path);
  std::string foreign = good, negative = good, half = good.substr(0, good.size() / 2);
  foreign.replace(foreign.find("a job"), 5, "b job");
  negative.replace(negative.find("\"cores\": 3"), 10, "\"cores\": -3");
  std::string missing = good;
  missing.replace(missing.find("far_latency"), 11, "far_lateness");
  const std::vector<std::string> texts = {"",
                                          "[]",
                                          "{}",
                                          "null",
                                          "no JSON",
                                          half,
                                          foreign,
                                          negative,
                                          missing,
                                          R"({"key": "a job", "rates": 7})",
                                          R"({"key": "a job", "rates": {"cores": "x"}})"};
  for (const std::string& text : texts) {
    write_atomically(path, text);
    EXPECT_FALSE(cache.find("a job")) << text;
  }
  write_atomically(path, good);
  EXPECT_TRUE(cache.find("a job"));
}

TEST(RatesCache, DoesWithoutAFolder) {
  const RatesCache none("");
  none.remember("a job", odd_rates());
  EXPECT_FALSE(none.find("a job"));
  EXPECT_EQ(none.file("a job"), "");
  const RatesCache forbidden("/proc/asup");
  EXPECT_NO_THROW(forbidden.remember("a job", odd_rates()));
}

TEST(RatesCache, TextIsExact) {
  EXPECT_EQ(rates_from(to_text(odd_rates())), odd_rates());
  EXPECT_THAT(message_of<BadInput>([] { rates_from("{}"); }), HasSubstr("near_latency"));
  EXPECT_EQ(message_of<BadInput>([] { rates_from("{"); }), "not JSON");
}

TEST(Surroundings, KeyDoesNotDependOnTheOrderOfHosts) {
  Surroundings a;
  a.hosts = {0, 0, 1};
  a.names = {"alpha", "beta"};
  Surroundings b = a;
  b.hosts = {0, 1, 1};
  b.names = {"beta", "alpha"};
  EXPECT_EQ(a.key(), b.key());
  EXPECT_THAT(a.key(), HasSubstr("alpha x2, beta x1"));
  b.near_link = "tcp";
  EXPECT_NE(a.key(), b.key());
}

}  // namespace
}  // namespace asup::collective::tuning
