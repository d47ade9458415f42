#include "asup/train/loop/step_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "asup/train/loop/train.h"
#include "asup/train/resolve.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace asup::train {
namespace {

constexpr Seconds kStep{0.3}, kTest{0.9};

struct SlowSteps : StepHooks {
  void before_batch(std::size_t, double) override { std::this_thread::sleep_for(kStep); }
};

// Rank 0 is late for every test: the others wait for it there.
struct Watcher : report::Observer {
  std::vector<report::StepRecord> shown, logged_rows;

  void stepped(const report::StepRecord& record) override { shown.push_back(record); }
  void logged(const report::StepRecord& record) override { logged_rows.push_back(record); }
  void evaluating(std::int64_t) override { std::this_thread::sleep_for(kTest); }
};

TrainConfig small_run(const std::string& folder) {
  TrainConfig config;
  config.model = "resnet18";  // its statistics are averaged for a test
  config.device = "cpu";      // torch has one thread for all backward passes on a GPU
  config.data = "synthetic";
  config.synthetic_shape = "1x8x8";
  config.synthetic_samples = 8;
  config.synthetic_test_samples = 2;
  config.batch = 4;
  config.steps = 4;
  config.eval_every = {Every::Kind::steps, 1};
  config.checkpoint_every = {Every::Kind::never};
  config.log_every = 1;
  config.out = folder;
  return resolve(config);
}

// Time that a test takes is in no row, and neither is what workers wait for each other in it: that
// would be in every row after a test. In one of them, workers may wait because the machine is busy.
TEST(StepLog, WaitsOfATestAreInNoRow) {
  const testing::TemporaryFolder place;
  const TrainConfig config = small_run(place.file("run"));
  Watcher watcher;
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    SlowSteps hooks;
    report::Observer none;
    train(
        job, config, job.rank() == 0 ? watcher : none, [] { return false; }, hooks);
  });
  for (const auto& rows : {watcher.shown, watcher.logged_rows}) {
    ASSERT_EQ(rows.size(), 4);
    double least_share = 1;
    for (const report::StepRecord& row : rows) {
      EXPECT_GE(row.step_seconds, kStep.count());
      if (row.step > 1) least_share = std::min(least_share, row.comm_share());
    }
    EXPECT_LT(least_share, 0.8);
  }
}

}  // namespace
}  // namespace asup::train
