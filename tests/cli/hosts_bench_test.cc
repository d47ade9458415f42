// Benchmarks between hosts that are network namespaces: a whole one, small, and what is left of one
// that is broken off. Skipped where there can be no such hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/compare/virtual_hosts.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace asup::cli {
namespace {

using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Those that are there of the process.
std::vector<std::string> namespaces_of(pid_t pid) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(fmt::format("asup-bench-{}-", pid))) found.push_back(name);
  }
  return found;
}

class HostsBench : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const bench::VirtualHosts hosts(2, 1e8);
      EXPECT_EQ(namespaces_of(getpid()).size(), 3u);  // and the switch
    } catch (const BadInput& error) {
      GTEST_SKIP() << error.what();
    }
    EXPECT_THAT(namespaces_of(getpid()), IsEmpty());
  }

  std::unique_ptr<launch::Launched> start_bench(std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    words.insert(words.end(), {"--workers", "2", "--data", "synthetic", "--model", "mlp", "--batch",
                               "64", "--sample-ms", "0.2", "--seeds", "1", "--out", folder_.path(),
                               "--json", folder_.file("rows.json")});
    return start(words);
  }

  nlohmann::json rows() { return nlohmann::json::parse(read_file(folder_.file("rows.json"))); }

  TemporaryFolder folder_;
};

TEST_F(HostsBench, ComparesWaysAndLeavesNothing) {
  const auto bench =
      start_bench({"time-to-accuracy", "--rate", "1gbit", "--slow", "2", "--ways", "allreduce,asup",
                   "--way", "ring=--sync allreduce --algorithm ring", "--way",
                   "far=--sync diloco --exchange-dtype bf16 --algorithm ring", "--steps", "8",
                   "--tests", "2", "--html", folder_.file("report.html")});
  ASSERT_EQ(bench->wait(Seconds(240)), 0) << bench->err();
  EXPECT_THAT(bench->out(), HasSubstr("2 workers, the last one 2 times slower, links of 1 Gbit/s"));
  EXPECT_THAT(namespaces_of(bench->pid()), IsEmpty());
  ASSERT_EQ(rows().size(), 4u);
  // By a ring, whatever the links are measured to be: all-reduce sends gradients in 8 steps, DiLoCo
  // models in f32 for the first test, of their mean, and in bf16 at the end. Models are equal in
  // the beginning.
  EXPECT_EQ(rows()[2].at("way"), "ring");
  EXPECT_EQ(rows()[3].at("way"), "far");
  const double ring = rows()[2].at("bytes_sent_by_a_worker");
  const double far = rows()[3].at("bytes_sent_by_a_worker");
  EXPECT_NEAR(ring / far, 8 / 1.5, 0.1);
  EXPECT_THAT(read_file(folder_.file("report.html")), HasSubstr("</svg>"));
  const auto asup = nlohmann::json::parse(read_file(folder_.file("asup-1/summary.json")));
  EXPECT_EQ(asup.at("servers"), 2);  // one beside each worker
}

TEST_F(HostsBench, ComputesAllReduceFromTheStepsOfAFastRun) {
  const auto bench = start_bench({"time-to-accuracy", "--rate", "100mbit", "--ways", "allreduce",
                                  "--steps", "8", "--tests", "2", "--compute-allreduce", "3"});
  ASSERT_EQ(bench->wait(Seconds(240)), 0) << bench->err();
  EXPECT_THAT(bench->err(), Not(HasSubstr("other bits")));
  EXPECT_EQ(rows().at(0).at("computed"), true);
  EXPECT_GT(rows().at(0).at("accuracy"), 0);
  const auto timed =
      nlohmann::json::parse(read_file(folder_.file("allreduce-1-timed/summary.json")));
  EXPECT_EQ(timed.at("step"), 3);
}

TEST_F(HostsBench, TakesHostsDownAfterCtrlC) {
  const auto bench = start_bench({"time-to-accuracy", "--ways", "allreduce", "--steps", "1000000"});
  ASSERT_TRUE(bench->wait_for_output("links of 100 Mbit/s"));
  EXPECT_EQ(namespaces_of(bench->pid()).size(), 3u);
  bench->signal(SIGINT);
  EXPECT_EQ(bench->wait(Seconds(60)), 130);
  EXPECT_EQ(bench->last_line(), "asup bench: ended by SIGINT (Ctrl-C)");
  EXPECT_THAT(namespaces_of(bench->pid()), IsEmpty());
}

TEST_F(HostsBench, TakesHostsDownAfterAFailedRun) {
  const auto bench =
      start_bench({"time-to-accuracy", "--ways", "local", "--way",
                   "odd=--sync local --round-seconds 0.001", "--steps", "4", "--tests", "1"});
  EXPECT_EQ(bench->wait(Seconds(240)), 1);
  EXPECT_THAT(bench->last_line(), HasSubstr("the run odd-1 failed: "));
  EXPECT_THAT(bench->last_line(), HasSubstr("round-seconds = 0.001 is shorter than a step"));
  EXPECT_THAT(namespaces_of(bench->pid()), IsEmpty());
}

// A run that is killed cannot take anything down, so the next one does; what belongs to others that
// run stays.
TEST_F(HostsBench, RemovesWhatAKilledRunHasLeft) {
  const bench::VirtualHosts others(2, 0);
  const auto bench = start_bench({"time-to-accuracy", "--ways", "allreduce", "--steps", "1000000"});
  ASSERT_TRUE(bench->wait_for_output("links of 100 Mbit/s"));
  bench->signal(SIGKILL);
  EXPECT_EQ(bench->wait(Seconds(60)), 128 + SIGKILL);
  EXPECT_EQ(namespaces_of(bench->pid()).size(), 3u);
  const bench::VirtualHosts next(2, 0);
  EXPECT_THAT(namespaces_of(bench->pid()), IsEmpty());
  EXPECT_EQ(namespaces_of(getpid()).size(), 6u);
}

TEST_F(HostsBench, HasANetworkOfStragglers) {
  const auto bench = start_bench({"stragglers", "--scenes", "equal,network", "--ways",
                                  "allreduce,bsp", "--steps", "8", "--tests", "2", "--lr", "0.05"});
  ASSERT_EQ(bench->wait(Seconds(240)), 0) << bench->err();
  ASSERT_EQ(rows().size(), 4u);
  EXPECT_EQ(rows()[3].at("scene"), "network");
  const auto summary = nlohmann::json::parse(read_file(folder_.file("network-bsp-1/summary.json")));
  EXPECT_EQ(summary.at("servers"), 2);
  EXPECT_THAT(summary.at("links").get<std::string>(), HasSubstr("TCP"));
}

}  // namespace
}  // namespace asup::cli
