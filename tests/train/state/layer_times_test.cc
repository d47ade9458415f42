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
                        torch::ones({8, 3}), 2);
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

// Of two layers, the second of which leaves what is between its halves, too.
TEST(LayerTimes, WeighsWhatLayersHaveGiveAndLeave) {
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Linear(4, 2));
  auto layers = parallel::layers_of(model);
  layers[1].forward = [inner = layers[1].forward](const torch::Tensor& x) {
    return inner(x.tanh()).tanh();
  };
  std::vector<parallel::LayerCost> costs;
  testing::run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    costs = time_layers(*make_communicator(job), *model, layers, torch::ones({8, 3}), 4);
  });
  ASSERT_EQ(costs.size(), 2U);
  constexpr double kFloat = sizeof(float);
  EXPECT_EQ(costs[0].parameters, 4 * (3 * 4 + 4) * kFloat);
  EXPECT_EQ(costs[1].parameters, 4 * (4 * 2 + 2) * kFloat);
  EXPECT_EQ(costs[0].output, 8 * 4 * kFloat);
  EXPECT_EQ(costs[1].output, 8 * 2 * kFloat);
  EXPECT_EQ(costs[0].activations, 8 * 4 * kFloat);
  EXPECT_EQ(costs[1].activations, (8 * 4 + 8 * 2) * kFloat);  // what the linear one gives is freed
}

TEST(LayerTimes, LinksAreThoseOfTheRates) {
  collective::Rates rates;
  rates.near = {.latency = 1, .message = 2, .send_byte = 0.25, .recv_byte = 0.5};
  rates.far = {.latency = 10, .message = 2, .send_byte = 0.25, .wire_byte = 2};
  const parallel::GridShape shape{.data = 2, .pipeline = 2};
  const net::HostId here{"a", "1"}, there{"b", "1"};
  const auto alike = links_of(rates, {here, here, here, here}, shape);
  ASSERT_EQ(alike.size(), 1U);
  EXPECT_EQ(alike[0].latency, 5);
  EXPECT_EQ(alike[0].bandwidth, 2);
  // Ranks 0, 2 and 4 are a pipeline, and 1, 3 and 5; one of these goes to another host and back.
  const auto mixed =
      links_of(rates, {here, here, here, here, here, there}, {.data = 2, .pipeline = 3});
  ASSERT_EQ(mixed.size(), 3U);
  EXPECT_EQ(mixed[0].bandwidth, 2);
  EXPECT_EQ(mixed[1].bandwidth, 0.5);
  EXPECT_EQ(mixed[1].latency, 14);
  EXPECT_EQ(mixed[2].bandwidth, 0.5);
}

TEST(LayerTimes, StagesFitTheMemory) {
  const auto& schedule = parallel::find_schedule("1f1b");
  const parallel::PipelineSpec spec{
      .ranks = 2, .micro_batches = 4, .placement = schedule.placement};
  parallel::CutProblem problem{
      .layers = costs({1, 1, 1, 1}), .ranks = {{.memory = 100}}, .links = {}};
  const std::vector<double> parameters{60, 40, 10, 10};
  for (std::size_t i = 0; i < parameters.size(); ++i) problem.layers[i].parameters = parameters[i];
  EXPECT_THAT(fastest_cut(problem, schedule, spec), ElementsAre(2, 2));
  problem.layers[0].activations = 1;  // the first stage keeps two micro-batches
  EXPECT_THAT(fastest_cut(problem, schedule, spec), ElementsAre(1, 3));
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
    const auto cut_of = [&](std::vector<parallel::LayerCost> layers) {
      return fastest_cut(
          of_all_workers(*all, shape,
                         {.layers = std::move(layers), .ranks = {{.memory = 1e9}}, .links = {}}),
          schedule, spec);
    };
    EXPECT_THAT(cut_of(costs(equal[own])), ElementsAre(3, 1));
    // One of the second stage's workers, rank 3, is three times as slow.
    const auto slow = costs(std::vector<double>(8, job.rank() == 3 ? 3 : 1));
    EXPECT_THAT(cut_of(slow), ElementsAre(6, 2));
    const auto problem =
        of_all_workers(*all, shape, {.layers = slow, .ranks = {{.memory = 1e9}}, .links = {}});
    ASSERT_EQ(problem.ranks.size(), 2U);
    EXPECT_EQ(problem.ranks[1].memory, 1e9);
    EXPECT_NEAR(problem.ranks[1].speed, 1.0 / 3, 1e-9);
  });
}

}  // namespace
}  // namespace asup::train
