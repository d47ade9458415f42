// Simulated compute in a real step: gradients leave while it goes on, as they do beside real
// compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "asup/bench/injected_slowness.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/train/loop/train_step.h"
#include "tests/support/ranks.h"
#include "tests/sync/watched_communicator.h"

namespace asup::bench {
namespace {

constexpr double kBatch = 0.6;         // seconds
constexpr std::int64_t kSamples = 12;  // of a rank

struct StepTimes {
  double first_left, last_left, ended;  // seconds since the step began
};

train::TrainConfig config_with(std::int64_t accumulate) {
  train::TrainConfig config;
  config.workers = 2;
  config.batch = 2 * kSamples;
  config.accumulate = accumulate;
  return config;
}

// Of a few steps on one of two ranks; every gradient is a bucket of its own.
std::vector<StepTimes> times_of_steps(std::int64_t accumulate) {
  torch::set_num_threads(1);
  std::vector<StepTimes> steps;
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto real = make_communicator(job);
    std::vector<Clock::time_point> left;
    testing::WatchedCommunicator communicator(*real,
                                              [&](const Call&) { left.push_back(Clock::now()); });
    const auto model = models::make_model(
        "mlp", {.input_shape = {1, 8, 8}, .classes = 10, .width = 32, .depth = 4});
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    const auto replica = make_all_reduce_replica(
        communicator, *model, optimizer,
        {.bucket_bytes = 1, .first_bucket_bytes = 1, .in_place_bytes = ~std::size_t{0}});
    const net::Environment slowness = [](const char* name) -> std::optional<std::string> {
      if (std::string_view(name) != "ASUP_INJECTED_SLOWNESS") return std::nullopt;
      return fmt::format("sample_ms={}", kBatch * 1000 / kSamples);
    };
    auto hooks = InjectedSlowness::from(slowness, job.rank(), 1);
    const train::Offload in_memory;
    train::TrainStep step(*model, optimizer, *replica,
                          models::ComputePath{models::ConvolutionPath::native},
                          config_with(accumulate), hooks, in_memory, nullptr);
    for (int i = 0; i < 4; ++i) {
      train::StepWork work;
      work.batch = {torch::randn({kSamples, 1, 8, 8}), torch::zeros({kSamples}, torch::kLong)};
      work.lr = 0.01;
      left.clear();
      const auto began = Clock::now();
      step.run(work, 0);
      const auto after = [&](Clock::time_point when) { return Seconds(when - began).count(); };
      if (job.rank() == 0)
        steps.push_back({after(left.front()), after(left.back()), seconds_since(began)});
      replica->step();
    }
  });
  return steps;
}

double earliest(const std::vector<StepTimes>& steps) {
  double least = 1e9;
  for (const StepTimes& step : steps) least = std::min(least, step.first_left);
  return least;
}

TEST(SimulatedCompute, GradientsLeaveBeforeItEnds) {
  const auto steps = times_of_steps(1);
  ASSERT_EQ(steps.size(), 4);
  for (const StepTimes& step : steps) {
    EXPECT_GE(step.first_left, kBatch / 3);  // forward
    EXPECT_GE(step.last_left, kBatch * 0.999);
    EXPECT_GE(step.ended, kBatch);
  }
  EXPECT_LT(earliest(steps), kBatch * 0.9);
}

TEST(SimulatedCompute, AccumulatedGradientsLeaveInTheLastPortion) {
  const auto steps = times_of_steps(2);
  for (const StepTimes& step : steps) {
    EXPECT_GE(step.first_left, kBatch * (0.5 + 0.5 / 3));
    EXPECT_GE(step.ended, kBatch);
  }
  EXPECT_LT(earliest(steps), kBatch * 0.95);
}

}  // namespace
}  // namespace asup::bench
