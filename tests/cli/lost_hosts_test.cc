// asup train on hosts that vanish, and on a network that falls apart, in every way of training:
// those who may go on do, by themselves, and nobody else. Hosts are network namespaces; skipped
// where there can be none.
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

using Words = std::vector<std::string>;

struct Way {
  std::string name;
  Words flags;
  int servers = 0;
};

std::vector<Way> ways() {
  return {{"allreduce", {"--sync=allreduce", "--checkpoint-every=5"}},
          {"server", {"--sync=server"}, 1},
          {"local", {"--sync=local", "--every=4"}},
          {"diloco", {"--sync=diloco", "--every=5"}},
          {"gossip", {"--sync=gossip"}},
          {"adpsgd", {"--sync=adpsgd", "--graph=exponential"}}};
}

// A training that never ends by itself, with a rank on each host and the launcher on the first.
class Training {
 public:
  Training(const Way& way, int hosts) : hosts_(hosts, 0) {
    Words words{program_path(), "run"};
    for (const std::string& flag : hosts_.run_flags()) words.push_back(flag);
    for (const std::string& flag :
         {std::string("--on-loss"), std::string("continue"), std::string("--servers"),
          std::to_string(way.servers), std::string("--env"),
          std::string("ASUP_INJECTED_SLOWNESS=sample_ms=1"), std::string("--"), program_path()})
      words.push_back(flag);
    for (const char* flag :
         {"train", "--model=mlp", "--width=256", "--data=synthetic", "--synthetic-samples=480",
          "--synthetic-test-samples=90", "--batch=24", "--threads=1", "--log-every=1", "--seed=7",
          "--lr=0.01", "--steps=1000000", "--eval-every=never", "--progress=none"})
      words.push_back(flag);
    for (const std::string& flag : way.flags) words.push_back(flag);
    words.push_back("--out=" + folder_.file("run"));
    job_ = start_command(hosts_.on_first_host(words));
  }

  bench::VirtualHosts& hosts() { return hosts_; }
  launch::Launched& job() { return *job_; }
  std::string file(const std::string& name) const { return folder_.file("run/" + name); }

  // The last one that was logged.
  std::int64_t step() const {
    std::int64_t last = 0;
    std::ifstream file(folder_.file("run/metrics.jsonl"));
    for (std::string line; std::getline(file, line) && !file.eof();)
      last = nlohmann::json::parse(line).at("step");
    return last;
  }
  // True as soon as it holds; false where the job ends first, or after two minutes.
  bool comes_true(const std::function<bool()>& condition) {
    for (const Deadline end = after(Seconds(120)); Clock::now() < end;) {
      if (condition()) return true;
      if (!launch::alive(job_->pid())) return false;
      std::this_thread::sleep_for(Seconds(0.05));
    }
    return false;
  }

 private:
  const TemporaryFolder folder_;
  bench::VirtualHosts hosts_;
  std::unique_ptr<launch::Launched> job_;
};

class LostHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const bench::VirtualHosts hosts(1, 0);
    } catch (const BadInput& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // Trains in all these ways side by side, since most of the time they wait, and breaks something.
  void train(const std::vector<Way>& all, int hosts,
             const std::function<void(bench::VirtualHosts&)>& harm) {
    for (const Way& way : all) runs_.push_back(std::make_unique<Training>(way, hosts));
    for (const auto& run : runs_)
      ASSERT_TRUE(run->comes_true([&] { return run->step() >= 20; })) << run->job().err();
    for (const auto& run : runs_) harm(run->hosts());
  }

  // The ranks that are lost end, and the job goes on without them to where it is told to stop.
  void expect_goes_on(Training& run, const std::vector<int>& lost) {
    SCOPED_TRACE(run.job().err());
    for (const int rank : lost)
      ASSERT_TRUE(run.comes_true([&] {
        return run.job().err().find(fmt::format("rank {} (pid", rank)) != std::string::npos;
      })) << run.job().err();
    ASSERT_TRUE(run.comes_true([&] {
      const auto text = run.job().err();
      std::size_t ends = 0;
      for (std::size_t at = 0; (at = text.find("; the others go on", at)) != text.npos; ++at)
        ++ends;
      return ends == lost.size();
    })) << run.job().err();
    const std::int64_t before = run.step();
    EXPECT_TRUE(run.comes_true([&] { return run.step() >= before + 20; })) << run.job().err();
    run.job().signal(SIGINT);
    EXPECT_EQ(run.job().wait(Seconds(120)), 130) << run.job().err();
    const auto summary = nlohmann::json::parse(read_file(run.file("summary.json")));
    EXPECT_FALSE(summary.at("finished"));
  }

  std::vector<std::unique_ptr<Training>> runs_;
};

TEST_F(LostHosts, AreMissedInEveryWay) {
  train(ways(), 3, [](bench::VirtualHosts& hosts) { hosts.set_up(2, false); });
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    SCOPED_TRACE(ways()[i].name);
    expect_goes_on(*runs_[i], {2});
  }
}

TEST_F(LostHosts, OneHalfGoesOn) {
  train({ways()[2], ways()[3], ways()[5]}, 4, [](bench::VirtualHosts& hosts) {
    for (const auto& [a, b] : {std::pair(0, 2), {0, 3}, {1, 2}, {1, 3}}) {
      hosts.cut(a, b);
      hosts.cut(b, a);
    }
  });
  for (const auto& run : runs_) {
    expect_goes_on(*run, {2, 3});
    EXPECT_THAT(run->job().err(), HasSubstr("no majority"));
  }
}

}  // namespace
}  // namespace asup::cli
