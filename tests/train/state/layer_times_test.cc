#include "asup/train/state/layer_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

using ::testing::ElementsAre;

std::vector<parallel::LayerCost> costs(const std::vector<double>& seconds) {
  std::vector<parallel::LayerCost> layers;
  for (const double each : seconds)
    layers.push_back({.name = "layer", .times = {each, 2 * each, each, each}});
  return layers;
}

TEST(LayerTimes, LeavesTheModelAsItWas) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                              torch::nn::Dropout(0.5), torch::nn::Linear(4, 2));
  const torch::Tensor before = model->buffers().front().clone();
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  const torch::Tensor drawn = random.get_state();
  std::vector<parallel::LayerCost> times;
  testing::run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    times = time_layers(*make_communicator(job), *model, parallel::layers_of(model),
                        torch::ones({8, 3}));
  });
  ASSERT_EQ(times.size(), 4U);
  for (const parallel::LayerCost& layer : times) {
    EXPECT_GT(layer.times.forward, 0);
    EXPECT_GT(layer.times.backward, 0);
    EXPECT_LT(layer.times.forward, 1e9);
  }
  EXPECT_TRUE(torch::equal(model->buffers().front(), before));
  EXPECT_TRUE(torch::equal(random.get_state(), drawn));
  for (const torch::Tensor& parameter : model->parameters())
    EXPECT_FALSE(parameter.grad().defined());
}

// Each rank has measured something else.
TEST(LayerTimes, AllRanksCutAlike) {
  const auto& schedule = parallel::find_schedule("1f1b");
  const parallel::PipelineSpec spec{
      .ranks = 2, .micro_batches = 4, .placement = schedule.placement};
  testing::run_ranks(4, net::LinkKind::inproc, [&](Job& job) {
    const auto all = make_communicator(job);
    const parallel::GridShape shape{.data = 2, .pipeline = 2};
    const std::vector<std::vector<double>> equal{
        {1, 1, 1, 3}, {1, 1.1, 1, 3}, {1.1, 1, 1, 3}, {1, 1, 1.1, 3}};
    const auto own = static_cast<std::size_t>(job.rank());
    EXPECT_THAT(fastest_cut(*all, shape, costs(equal[own]), schedule, spec), ElementsAre(3, 1));
    // One of the second stage's workers, rank 3, is three times as slow.
    const auto slow = costs(std::vector<double>(8, job.rank() == 3 ? 3 : 1));
    EXPECT_THAT(fastest_cut(*all, shape, slow, schedule, spec), ElementsAre(6, 2));
  });
}

}  // namespace
}  // namespace asup::train
