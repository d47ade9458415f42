// A run by all-reduce that goes on without one of its workers.
#include <gtest/gtest.h>

#include <future>
#include <map>

#include "asup/base/error.h"
#include "asup/net/transport/inproc/wire.h"
#include "asup/train/loop/train.h"
#include "tests/support/join_options.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/said.h"

namespace asup::train {
namespace {

constexpr int kWorkers = 3;
constexpr std::int64_t kBatch = 6, kSteps = 5, kLost = 3;

// Rank 2 ends when the gradients of a step have been averaged, and the statistics have not.
struct EndsInStep : StepHooks {
  explicit EndsInStep(int rank) : ends(rank == 2) {}
  void after_batch(std::size_t, double) override {
    if (ends && ++batches == kLost) throw Error("this worker ends");
  }
  const bool ends;
  std::int64_t batches = 0;
};

struct Rows : report::Observer {
  void logged(const report::StepRecord& record) override { samples[record.step] += record.samples; }
  std::map<std::int64_t, std::int64_t> samples;
};

TEST(LostWorker, AStepThatIsTakenAgainIsLoggedOnce) {
  const asup::testing::TemporaryFolder place;
  const TrainConfig config = resolve(testing::said({{"model", "resnet18"},
                                                    {"buffers", "average"},
                                                    {"data", "synthetic"},
                                                    {"synthetic-shape", "1x8x8"},
                                                    {"synthetic-samples", "60"},
                                                    {"synthetic-test-samples", "3"},
                                                    {"device", "cpu"},
                                                    {"workers", std::to_string(kWorkers)},
                                                    {"batch", std::to_string(kBatch)},
                                                    {"steps", std::to_string(kSteps)},
                                                    {"log-every", "1"},
                                                    {"eval-every", "never"},
                                                    {"checkpoint-every", "never"},
                                                    {"on-loss", "continue"},
                                                    {"out", place.file("run")}}));
  net::InprocHub hub;
  net::JoinOptions options = asup::testing::join_options(kWorkers, net::LinkKind::inproc, 0);
  options.hub = &hub;
  options.goes_on_after_loss = true;
  Rows rows;
  const auto work = [&](int rank) {
    net::JoinOptions mine = options;
    mine.rank = rank;
    Job job = Job::join(mine);
    EndsInStep hooks(rank);
    report::Observer none;
    report::Observer& display = rank == 0 ? rows : none;
    train(
        job, config, display, [] { return false; }, hooks);
  };
  std::vector<std::future<void>> workers;
  for (int rank = 0; rank < kWorkers; ++rank)
    workers.push_back(std::async(std::launch::async, work, rank));
  EXPECT_THROW(workers[2].get(), Error);
  workers[0].get();
  workers[1].get();
  ASSERT_EQ(rows.samples.size(), static_cast<std::size_t>(kSteps));
  // The lost one may have had no time to tell of the step before.
  for (const auto& [step, samples] : rows.samples) {
    if (step == kLost - 1) {
      EXPECT_LE(samples, kBatch);
    } else {
      EXPECT_EQ(samples, kBatch) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace asup::train
