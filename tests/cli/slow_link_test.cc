// Rounds of a given time between hosts that are network namespaces, while the link of one of them
// becomes slow and fast again. Skipped where there can be no such hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

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

constexpr double kUsualRate = 1e8;
constexpr double kSlowRate = 3e5;    // carries a hundredth of a merge within the deadline
constexpr std::int64_t kEpoch = 50;  // steps

class SlowLink : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      hosts_ = std::make_unique<bench::VirtualHosts>(3, kUsualRate);
    } catch (const BadInput& error) {
      GTEST_SKIP() << error.what();
    }
  }

  std::unique_ptr<launch::Launched> train() {
    std::vector<std::string> words{program_path(), "run"};
    for (const std::string& flag : hosts_->run_flags()) words.push_back(flag);
    // Steps take their time, so that merges are few.
    for (const char* flag :
         {"--env", "ASUP_INJECTED_SLOWNESS=sample_ms=5", "--env", "ASUP_LOG_LEVEL=info", "--"})
      words.push_back(flag);
    words.push_back(program_path());
    for (const char* flag :
         {"train", "--model=mlp", "--width=512", "--data=synthetic", "--synthetic-samples=1200",
          "--synthetic-test-samples=90", "--batch=24", "--threads=1", "--log-every=1", "--seed=7",
          "--lr=0.01", "--steps=1000000", "--sync=local", "--round-seconds=1",
          "--merge-deadline=3"})
      words.push_back(flag);
    words.push_back("--out=" + folder_.file("run"));
    return start_command(hosts_->on_first_host(words));
  }

  // Of rows with losses that are whole.
  std::vector<nlohmann::json> rows() const {
    std::vector<nlohmann::json> rows;
    std::ifstream file(folder_.file("run/metrics.jsonl"));
    for (std::string line; std::getline(file, line) && !file.eof();)
      if (auto row = nlohmann::json::parse(line); row.contains("loss"))
        rows.push_back(std::move(row));
    return rows;
  }
  std::int64_t step() const {
    const auto all = rows();
    return all.empty() ? 0 : all.back().at("step").get<std::int64_t>();
  }

  // True as soon as it holds; false where the run ends first, or after two minutes.
  static bool comes_true(launch::Launched& run, const std::function<bool()>& condition) {
    for (const Deadline end = after(Seconds(120)); Clock::now() < end;) {
      if (condition()) return true;
      if (!launch::alive(run.pid())) return false;
      std::this_thread::sleep_for(Seconds(0.05));
    }
    return false;
  }
  // From now on.
  static std::function<bool()> says(launch::Launched& run, const std::string& text) {
    return [&run, text, said = run.err().size()] {
      return run.err().find(text, said) != std::string::npos;
    };
  }

  TemporaryFolder folder_;
  std::unique_ptr<bench::VirtualHosts> hosts_;
};

TEST_F(SlowLink, SoakIsNotWaitedForAndMergesAgainWhenItIsFast) {
  const auto run = train();
  ASSERT_TRUE(comes_true(*run, [&] { return step() >= kEpoch; })) << run->err();
  hosts_->set_rate(2, kSlowRate);
  ASSERT_TRUE(comes_true(*run, says(*run, "it is done again without rank 2"))) << run->err();
  const std::int64_t before = step();
  const auto all_merge = says(*run, "all workers merge again");
  ASSERT_TRUE(comes_true(*run, [&] { return step() >= before + 3 * kEpoch; })) << run->err();
  EXPECT_FALSE(all_merge()) << run->err();
  hosts_->set_rate(2, kUsualRate);
  ASSERT_TRUE(comes_true(*run, all_merge)) << run->err();
  run->signal(SIGINT);
  EXPECT_EQ(run->wait(Seconds(60)), 130) << run->err();
  EXPECT_THAT(run->err(), Not(HasSubstr("lost")));
  const auto summary = nlohmann::json::parse(read_file(folder_.file("run/summary.json")));
  std::int64_t samples = 0;
  for (const auto& row : rows()) samples += row.at("samples").get<std::int64_t>();
  EXPECT_EQ(samples, summary.at("samples"));
}

}  // namespace
}  // namespace asup::cli
