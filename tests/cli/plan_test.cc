// asup plan, from the outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "asup/base/files.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace asup::cli {
namespace {

using asup::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(AsupPlan, ListsTheAlgorithms) {
  const Ended ended = run({"plan"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, AllOf(StartsWith("allreduce\n"), HasSubstr("\n  ring "),
                                HasSubstr("\nbroadcast\n"), HasSubstr("  binomial ")));
}

TEST(AsupPlan, PrintsTheRounds) {
  const Ended ended = run({"plan", "ring", "--ranks", "2"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, StartsWith("allreduce by ring among 2 ranks, 128 elements: "));
  EXPECT_THAT(ended.text, HasSubstr("2 rounds deep, 4 messages; a rank sends 128 elements at most, "
                                    "1.00 of the whole\n"
                                    "  1\n"
                                    "    0 -> 1: [0, 64), added, complete\n"
                                    "    1 -> 0: [64, 128), added, complete\n"
                                    "  2\n"
                                    "    0 -> 1: [64, 128), copied\n"
                                    "    1 -> 0: [0, 64), copied\n"));
}

TEST(AsupPlan, PrintsOneRanksPart) {
  const Ended ended = run({"plan", "binomial", "--ranks", "4", "--root", "2", "--rank", "0"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, HasSubstr("rank 0\n  round 0: recv output[0, 256) from 2\n"));
}

TEST(AsupPlan, Proves) {
  const Ended ended = run({"plan", "ring", "--op", "reduce_scatter", "--ranks", "64", "--count",
                           "1000", "--slice", "3", "--verify"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, MatchesRegex("(.|\n)*\nproven in [0-9.]+ ms for 64 ranks and 1000 "
                                       "elements: every output(.|\n)*"));
}

TEST(AsupPlan, DrawsAndWritesRows) {
  const TemporaryFolder folder;
  const std::string svg = folder.file("ring.svg"), json = folder.file("ring.json");
  const Ended ended = run({"plan", "ring", "--ranks", "6", "--svg", svg, "--json", json});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, HasSubstr("drawn to " + svg));
  EXPECT_THAT(read_file(svg), AllOf(StartsWith("<svg xmlns="), HasSubstr("ring among 6 ranks")));
  const auto rows = nlohmann::json::parse(read_file(json));
  ASSERT_EQ(rows.size(), 60u);  // 2 (n - 1) n messages
  EXPECT_EQ(rows[0]["from"], 0);
  EXPECT_EQ(rows[0]["to"], 1);
  EXPECT_EQ(rows[0]["op"], "recv_reduce");
  EXPECT_EQ(rows[59]["round"], 10);
}

TEST(AsupPlan, RefusesBadInput) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"plan", "rnig", "--ranks", "4"}, "asup plan: no algorithm 'rnig'; did you mean 'ring'?"},
      {{"plan", "ring"}, "asup plan: --ranks says among how many ranks, at least 1"},
      {{"plan", "ring", "--ranks", "-4"},
       "asup plan: --ranks says among how many ranks, at least 1"},
      {{"plan", "chain", "--ranks", "4", "--root", "4"},
       "asup plan: broadcast: there is no rank 4; ranks are 0 to 3"},
      {{"plan", "ring", "--ranks", "4", "--rank", "4"}, "asup plan: --rank 4: ranks are 0 to 3"},
      {{"plan", "ring", "--ranks", "4", "--count", "99999999999999999999"},
       "asup plan: --count 99999999999999999999: how many elements, a number that memory can hold"},
      {{"plan", "ring", "--ranks", "4", "--count", "-1"},
       "asup plan: --count -1: how many elements, a number that memory can hold"},
      {{"plan", "ring", "--ranks", "4", "--slice", "0"},
       "asup plan: all_reduce: a slice must hold at least one element"},
      {{"plan", "ring", "--ranks", "4", "--op", "alreduce"},
       "asup plan: --op alreduce: no such collective; did you mean 'allreduce'?"},
  };
  for (const auto& [words, message] : cases) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << message;
    EXPECT_EQ(ended.last_error, message);
  }
  const Ended many = run({"plan", "ring", "--ranks", "60000"});
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.last_error, HasSubstr("give fewer --ranks"));
  const Ended nowhere = run({"plan", "ring", "--ranks", "2", "--svg", "/proc/none/x.svg"});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.last_error, HasSubstr("/proc/none/x.svg: cannot be written"));
}

}  // namespace
}  // namespace asup::cli
