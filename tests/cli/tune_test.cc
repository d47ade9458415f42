// asup tune, from the outside: real processes on this host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/files.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace asup::cli {
namespace {

using asup::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The programs it starts remember in a folder of the test.
class AsupTune : public ::testing::Test {
 protected:
  AsupTune() { ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~AsupTune() override { ::unsetenv("XDG_CACHE_HOME"); }

  std::vector<std::string> remembered() const {
    std::vector<std::string> files;
    const std::string cache = folder_.file("asup");
    if (!std::filesystem::exists(cache)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(cache))
      files.push_back(entry.path().string());
    return files;
  }

  TemporaryFolder folder_;
};

TEST_F(AsupTune, MeasuresPricesTriesAndRemembers) {
  const std::string json = folder_.file("rows.json");
  const Ended ended = run({"tune", "-n", "2", "--quick", "--sizes", "1K,64K", "--json", json});
  ASSERT_EQ(ended.status, 0) << ended.last_error;
  EXPECT_THAT(ended.text, AllOf(HasSubstr("same host: latency "), HasSubstr("      1K "),
                                HasSubstr("     64K "), HasSubstr(" of 2 sizes\n")));
  const auto files = remembered();
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(ended.text, HasSubstr("remembered in " + files[0]));
  const auto file = nlohmann::json::parse(read_file(files[0]));
  EXPECT_THAT(file["key"].get<std::string>(), HasSubstr("shm inside a host"));
  EXPECT_GT(file["rates"]["near_send_byte"].get<double>(), 0);

  const auto rows = nlohmann::json::parse(read_file(json));
  ASSERT_GE(rows.size(), 4u);  // two sizes, two algorithms or more
  int picked = 0, best = 0;
  for (const auto& row : rows) {
    EXPECT_GT(row["predicted_us"].get<double>(), 0);
    EXPECT_GT(row["p50_us"].get<double>(), 0);
    EXPECT_EQ(row["buffers"], "shared");
    picked += row["picked"].get<bool>();
    best += row["best"].get<bool>();
  }
  EXPECT_EQ(picked, 2);
  EXPECT_EQ(best, 2);
}

TEST_F(AsupTune, KeepsLinksApart) {
  EXPECT_EQ(run({"tune", "--quick", "--sizes", "1K"}).status, 0);
  const Ended tcp = run({"tune", "--quick", "--sizes", "1K", "--link", "tcp"});
  EXPECT_EQ(tcp.status, 0);
  EXPECT_THAT(tcp.text, HasSubstr("private buffers"));
  EXPECT_EQ(remembered().size(), 2u);
}

TEST_F(AsupTune, RefusesBadInput) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"tune", "--op", "barrier"},
       "asup tune: --op barrier: there is allreduce, reduce_scatter, allgather and broadcast"},
      {{"tune", "--op", "alreduce"},
       "asup tune: --op alreduce: no such collective; did you mean 'allreduce'?"},
      {{"tune", "--sizes", "1X"},
       "asup tune: --sizes: '1X' is no size; write bytes as 512, 4K, 25M or 1G, separated by "
       "commas"},
      {{"tune", "-n", "0"}, "asup tune: --ranks: must be between 1 and 1000000, not 0"},
  };
  for (const auto& [words, message] : cases) {
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << message;
    EXPECT_EQ(ended.last_error, message);
  }
  EXPECT_TRUE(remembered().empty());
}

}  // namespace
}  // namespace asup::cli
