#include "asup/train/loop/train_step.h"

#include <gmock/gmock.h>

#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;
using ::testing::SizeIs;

// A linear model that knows of how many samples each forward was.
class Watched : public models::Model {
 public:
  Watched() : weight(register_parameter("weight", torch::ones({3, 4}))) {}
  torch::Tensor forward(torch::Tensor input) override {
    portions.push_back(input.size(0));
    return input.matmul(weight.t());
  }

  torch::Tensor weight;
  std::vector<std::int64_t> portions;
};

struct Outcome {
  std::vector<std::int64_t> portions;
  torch::Tensor gradient;
};

// One worker's step of a job of two with a batch of 16, of which it has so many samples.
Outcome step_of(std::int64_t samples, std::int64_t accumulate = 1) {
  Outcome outcome;
  asup::testing::run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Watched model;
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    const auto replica = make_all_reduce_replica(*communicator, model, optimizer);
    TrainConfig config;
    config.workers = 2;
    config.batch = 16;
    config.accumulate = accumulate;
    StepHooks hooks;
    const Offload in_memory;
    TrainStep step(model, optimizer, *replica, models::ComputePath{}, config, hooks, in_memory,
                   nullptr);
    torch::manual_seed(1);
    const StepWork work{.batch = {torch::randn({64, 4}).narrow(0, 0, samples),
                                  torch::zeros({samples}, torch::kInt64)},
                        .weight = 1.0 / static_cast<double>(samples),
                        .lr = 0.1};
    EXPECT_EQ(step.run(work, 0).samples, samples);
    outcome = {model.portions, model.weight.grad().clone()};
  });
  return outcome;
}

TEST(TrainStep, WorksOnAnEvenPartAtOnceOrInPortions) {
  EXPECT_THAT(step_of(8).portions, ElementsAre(8));
  EXPECT_THAT(step_of(8, 4).portions, ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(step_of(4, 4).portions, ElementsAre(2, 2));
  EXPECT_THAT(step_of(16).portions, ElementsAre(16));  // twice an even part
}

// As a fast worker has them whose leases are balanced.
TEST(TrainStep, ALongLeaseTakesNoMoreMemoryThanTwoEvenOnes) {
  const Outcome lease = step_of(64);
  EXPECT_THAT(lease.portions, AllOf(SizeIs(4), Each(Le(16))));
  const torch::Tensor input = (torch::manual_seed(1), torch::randn({64, 4}));
  const torch::Tensor weight = torch::ones({3, 4}, torch::requires_grad());
  torch::nn::functional::cross_entropy(input.matmul(weight.t()), torch::zeros({64}, torch::kInt64))
      .backward();
  EXPECT_TRUE(torch::allclose(lease.gradient, weight.grad(), 1e-5, 1e-6));
  EXPECT_THAT(step_of(33, 2).portions, AllOf(SizeIs(5), Each(Le(8))));
}

}  // namespace
}  // namespace asup::train
