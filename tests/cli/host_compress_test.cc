// Gradients that are sparse between hosts and dense within them, where hosts are network namespaces
// with two workers each. Skipped where there can be no such hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::Not;

class HostCompress : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      hosts_ = std::make_unique<bench::VirtualHosts>(2, 0);
    } catch (const BadInput& error) {
      GTEST_SKIP() << error.what();
    }
  }

  struct Trained {
    double bytes;  // between the hosts, both ways
    nlohmann::json summary;
    std::string said;
  };
  Trained train(const std::string& name, const std::vector<std::string>& flags) {
    const std::string folder = folder_.file(name);
    std::vector<std::string> words{program_path(), "run"};
    for (const std::string& flag : hosts_->run_flags(2)) words.push_back(flag);
    words.insert(words.end(), {"--", program_path()});
    for (const char* flag :
         {"train", "--model=mlp", "--width=1024", "--depth=1", "--data=synthetic",
          "--synthetic-samples=400", "--synthetic-test-samples=90", "--synthetic-shape=1x16x16",
          "--batch=24", "--threads=1", "--seed=7", "--lr=0.02", "--steps=40", "--log-every=40",
          "--checkpoint-every=never", "--eval-every=never"})
      words.emplace_back(flag);
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("--out=" + folder);
    const std::uint64_t before = hosts_->bytes_sent(0) + hosts_->bytes_sent(1);
    const auto run = start_command(hosts_->on_first_host(words));
    EXPECT_EQ(run->wait(Seconds(240)), 0) << run->err();
    const std::uint64_t after = hosts_->bytes_sent(0) + hosts_->bytes_sent(1);
    return {static_cast<double>(after - before),
            nlohmann::json::parse(read_file(folder + "/summary.json")), run->out()};
  }

  TemporaryFolder folder_;
  std::unique_ptr<bench::VirtualHosts> hosts_;
};

// Each worker's payload goes to the two of the other host; a host's, of half of the bucket from
// each of its workers, to one.
TEST_F(HostCompress, OneSelectionTravelsForAHost) {
  const std::vector<std::string> few{"--compress=dgc", "--compress-density=0.0001",
                                     "--compress-warmup=0"};
  (void)train("first", few);               // measures the links, and remembers what it has measured
  const auto still = train("still", few);  // what goes besides
  const std::vector<std::string> dgc{"--compress=dgc", "--compress-density=0.04",
                                     "--compress-warmup=0"};
  auto of_workers = dgc;
  of_workers.emplace_back("--compress-per=worker");
  const auto host = train("host", dgc), worker = train("worker", of_workers);
  const double by_host = host.bytes - still.bytes, by_worker = worker.bytes - still.bytes;
  // Of 1024 · (256 + 10) numbers one in 25, in 3.5 bytes each, from each of two hosts, 40 times.
  EXPECT_NEAR(by_host / (2 * 40 * 3.5 * 0.04 * 1024 * 266), 1, 0.2);
  EXPECT_GT(by_worker, 2 * by_host);
  EXPECT_GT(host.summary.at("test_accuracy"), 0.8);
  RecordProperty("bytes between hosts, by host", std::to_string(by_host));
  RecordProperty("by worker", std::to_string(by_worker));
  std::printf("bytes between hosts in a step: %.0f, with a selection of each worker %.0f\n",
              by_host / 40, by_worker / 40);
}

}  // namespace
}  // namespace asup::cli
