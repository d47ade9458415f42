// `asup bench stragglers` with learning rates that it tunes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/files.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace asup::cli {
namespace {

using ::testing::HasSubstr;

// Each way has its own, in every scene; a second benchmark of the same job takes them over.
TEST(TunedBench, TakesTheBestOnSamplesSetAside) {
  const asup::testing::TemporaryFolder folder;
  const auto measure = [&](const std::string& out) {
    const auto bench = start({"bench",       "stragglers",
                              "--scenes",    "equal,slow",
                              "--ways",      "allreduce,bsp",
                              "--workers",   "2",
                              "--data",      "synthetic",
                              "--model",     "mlp",
                              "--batch",     "16",
                              "--steps",     "6",
                              "--tests",     "2",
                              "--sample-ms", "0.1",
                              "--seeds",     "1",
                              "--rates",     folder.file("rates.json"),
                              "--json",      folder.file("rows.json"),
                              "--out",       folder.file(out)});
    EXPECT_EQ(bench->wait(Seconds(600)), 0) << bench->err();
    EXPECT_THAT(bench->out(), HasSubstr("best on samples set aside"));
    return nlohmann::json::parse(read_file(folder.file("rows.json")));
  };
  const auto tuned = [&](const std::string& out) {
    int runs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file(out)))
      runs += entry.is_directory() && entry.path().string().find("-tuning-") != std::string::npos;
    return runs;
  };
  const auto rows = measure("first");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_GE(tuned("first"), 6);
  const auto rates = nlohmann::json::parse(read_file(folder.file("rates.json")));
  ASSERT_EQ(rates.size(), 2u);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("optimizer"), "sgd");
    EXPECT_EQ(row.at("lr"), rates[row.at("way") == "bsp" ? 1 : 0].at("lr"));
  }
  EXPECT_EQ(measure("second")[0].at("lr"), rows[0].at("lr"));
  EXPECT_EQ(tuned("second"), 0);
}

}  // namespace
}  // namespace asup::cli
