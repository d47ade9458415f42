#include "asup/precision/grad_scaler.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/distribute/distribute.h"
#include "asup/precision/autocast.h"
#include "asup/ps/serve.h"
#include "asup/sync/averaging/local_sgd.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/sync/server/parameter_server.h"
#include "tests/support/ranks.h"

namespace asup {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(GradScaler, GradientsComeAsIfTheLossWereNotScaled) {
  torch::Tensor weight = torch::ones({3}, torch::requires_grad());
  GradScaler scaler({weight}, {.first = 1024});
  const torch::Tensor loss = (weight * torch::tensor({1.0, 2.0, 3.0})).sum();
  EXPECT_EQ(scaler.scale(loss).item<double>(), 6 * 1024);
  scaler.scale(loss).backward();
  EXPECT_TRUE(weight.grad().equal(torch::tensor({1.0, 2.0, 3.0})));
}

// Of rows that are no parameters.
TEST(GradScaler, GradientsThatGoElsewhereComeUnscaledToo) {
  torch::Tensor weight = torch::ones({3}, torch::requires_grad());
  torch::Tensor rows = torch::ones({3}, torch::requires_grad());
  GradScaler scaler({weight}, {.first = 1024});
  scaler.scale((weight * scaler.unscaled(rows * 2)).sum()).backward();
  EXPECT_TRUE(weight.grad().equal(torch::full({3}, 2.0)));
  EXPECT_TRUE(rows.grad().equal(torch::full({3}, 2.0)));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(scaler.unscaled(rows * 2).equal(torch::full({3}, 2.0)));
}

// What it is for: a loss whose gradient is too small for fp16.
TEST(GradScaler, SavesGradientsThatFp16Loses) {
  const torch::Tensor input = torch::ones({1, 4});
  const auto gradient = [&](double first) {
    torch::Tensor weight = torch::ones({4, 4}, torch::requires_grad());
    GradScaler scaler({weight}, {.first = first});
    torch::Tensor output;
    {
      Autocast autocast(torch::kCPU, Precision::fp16);
      output = input.matmul(weight);
    }
    scaler.scale(output.to(torch::kFloat).sum() * 1e-9).backward();
    return weight.grad().abs().max().item<double>();
  };
  EXPECT_EQ(gradient(1), 0);
  EXPECT_NEAR(gradient(65536), 1e-9, 1e-11);
}

TEST(GradScaler, HalvesAfterAnOverflowAndGrowsAfterManySteps) {
  torch::Tensor weight = torch::ones({1}, torch::requires_grad());
  torch::optim::SGD optimizer({weight}, 0.5);
  GradScaler scaler({weight}, {.first = 8, .growth_interval = 3});
  const auto step = [&](double slope) {
    optimizer.zero_grad();
    scaler.scale(weight.sum() * slope).backward();
    return scaler.step(optimizer);
  };
  EXPECT_EQ(step(kInfinity), StepResult::skipped);
  EXPECT_EQ(weight.item<double>(), 1);
  EXPECT_EQ(scaler.scale(), 4);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(step(0.5), StepResult::applied);
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_EQ(step(0.5), StepResult::applied);
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_EQ(weight.item<double>(), 0.25);  // as without a scale
}

TEST(GradScaler, GoesOnFromItsState) {
  torch::Tensor weight = torch::ones({1}, torch::requires_grad());
  GradScaler before({weight}, {.first = 8, .growth_interval = 3});
  before.update(StepResult::applied);
  before.update(StepResult::applied);
  GradScaler after({torch::ones({1}, torch::requires_grad())}, {.growth_interval = 3});
  after.restore(before.state());
  after.update(StepResult::applied);
  EXPECT_EQ(after.scale(), 16);
  EXPECT_EQ(GradScalerState::from_text(before.state().to_text()), before.state());
  EXPECT_EQ(before.state().to_text(), "8 after 2 steps");
  for (const char* wrong : {"", "8", "8 after", "eight after 2 steps"})
    EXPECT_THROW(GradScalerState::from_text(wrong), BadInput) << wrong;
}

// A worker whose gradients overflow is alone with that; all leave the step out, and go on alike.
TEST(GradScaler, AllWorkersLeaveOutAStepInWhichOneOverflows) {
  std::array<GradScalerState, 2> states;
  std::array<torch::Tensor, 2> weights;
  asup::testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    torch::nn::Linear layer(1, 1);
    torch::optim::SGD optimizer(layer->parameters(), 0.1);
    const auto replica = make_all_reduce_replica(*communicator, *layer, optimizer);
    GradScaler scaler(layer->parameters(), {.first = 64});
    const torch::Tensor before = layer->weight.detach().clone();
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const double slope = step == 1 && job.rank() == 1 ? kInfinity : 1;
      scaler.scale(layer->forward(torch::ones({1, 1})).sum() * slope).backward();
      const StepResult result = scaler.step(*replica);
      EXPECT_EQ(result, step == 1 ? StepResult::skipped : StepResult::applied);
    }
    const auto rank = static_cast<std::size_t>(job.rank());
    states[rank] = scaler.state();
    weights[rank] = layer->weight.detach().clone();
    EXPECT_NEAR((before - weights[rank]).item<double>(), 0.2, 1e-6);  // two steps, unscaled
  });
  EXPECT_EQ(states[0], (GradScalerState{32, 1}));
  EXPECT_EQ(states[0], states[1]);
  EXPECT_TRUE(weights[0].equal(weights[1]));
}

// Each rank goes on with its own models, and with a scale of its own.
TEST(GradScaler, WhereModelsAreExchangedAWorkerSkipsAlone) {
  std::array<double, 2> scales{};
  asup::testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    torch::nn::Linear layer(1, 1);
    torch::optim::SGD optimizer(layer->parameters(), 0.1);
    const auto replica = distribute(job, *layer, optimizer, LocalSgd{.every = 4});
    GradScaler scaler(layer->parameters(), {.first = 64});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const double slope = step == 1 && job.rank() == 1 ? kInfinity : 1;
      scaler.scale(layer->forward(torch::ones({1, 1})).sum() * slope).backward();
      scaler.step(*replica);
    }
    scales[static_cast<std::size_t>(job.rank())] = scaler.scale();
  });
  EXPECT_EQ(scales[0], 64);
  EXPECT_EQ(scales[1], 32);
}

TEST(GradScaler, NeverRunsOutOfNumbers) {
  torch::Tensor weight = torch::ones({1}, torch::requires_grad());
  GradScaler scaler({weight}, {.growth_interval = 1});
  for (int i = 0; i < 500; ++i) scaler.update(StepResult::applied);
  (weight * scaler.scale()).sum().backward();
  EXPECT_EQ(weight.grad().item<double>(), 1);
  for (int i = 0; i < 500; ++i) scaler.update(StepResult::skipped);
  EXPECT_GT(scaler.scale(), 0);
}

TEST(GradScaler, LeavesParametersAloneWhenItGoes) {
  torch::Tensor weight = torch::ones({1}, torch::requires_grad());
  { GradScaler scaler({weight}); }
  weight.sum().backward();
  EXPECT_EQ(weight.grad().item<double>(), 1);
}

TEST(GradScaler, RefusesWhatNoScaleCanFollow) {
  EXPECT_THROW(GradScaler({}, {.first = 0}), BadInput);
  EXPECT_THROW(GradScaler({}, {.growth = 1}), BadInput);
  EXPECT_THROW(GradScaler({}, {.backoff = 1}), BadInput);
  EXPECT_THROW(GradScaler({}, {.growth_interval = 0}), BadInput);
  EXPECT_THROW(GradScaler({}).restore({kInfinity, 0}), BadInput);
}

// Others' gradients move the parameters all the same.
TEST(GradScaler, ThroughServersAWorkerSkipsAlone) {
  std::array<double, 2> scales{};
  const auto body = [&](Job& job) {
    if (job.is_server()) return ps::serve(job);
    torch::nn::Linear layer(1, 1);
    torch::optim::SGD optimizer(layer->parameters(), 0.1);
    const auto replica = distribute(job, *layer, optimizer, ParameterServer{.pace = Bsp{}});
    GradScaler scaler(layer->parameters(), {.first = 64});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const double slope = step == 1 && job.rank() == 1 ? kInfinity : 1;
      scaler.scale(layer->forward(torch::ones({1, 1})).sum() * slope).backward();
      scaler.step(*replica);
    }
    scales[static_cast<std::size_t>(job.rank())] = scaler.scale();
  };
  asup::testing::run_ranks(3, net::LinkKind::inproc, body, /*servers=*/1);
  EXPECT_EQ(scales[0], 64);
  EXPECT_EQ(scales[1], 32);
}

}  // namespace
}  // namespace asup
