#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/models/model.h"
#include "asup/models/task.h"
#include "asup/parallel/pipeline/pipeline.h"
#include "tests/support/ranks.h"

namespace asup::models {
namespace {

using parallel::Layer;
using parallel::Pipeline;
using torch::Tensor;

std::mutex generator;  // which is one for ranks that are threads

std::shared_ptr<Model> make(const std::string& name) {
  const std::lock_guard lock(generator);
  torch::manual_seed(1);
  if (name == "gpt")
    return make_model(
        name,
        {.input_shape = {8}, .classes = 11, .width = 16, .depth = 3, .text = true, .heads = 2});
  return make_model(name, {.input_shape = {1, 8, 8}, .classes = 5, .width = 8});
}

Tensor input_of(const std::string& name, std::int64_t samples) {
  const std::lock_guard lock(generator);
  torch::manual_seed(2);
  return name == "gpt" ? torch::randint(11, {samples, 8}) : torch::randn({samples, 1, 8, 8});
}

class EveryModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryModel, IsTheSequenceOfItsLayers) {
  const auto model = make(GetParam());
  const Tensor input = input_of(GetParam(), 4);
  Tensor x = input;
  model->eval();
  const std::vector<Layer> layers = model->layers();
  for (const Layer& layer : layers) x = layer.forward(x);
  EXPECT_TRUE(torch::equal(x, model->forward(input)));
  const auto is_used = [&](const auto& item) {
    return std::any_of(layers.begin(), layers.end(),
                       [&](const Layer& layer) { return layer.uses(item.key()); });
  };
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(is_used(parameter)) << parameter.key();
  for (const auto& buffer : model->named_buffers()) EXPECT_TRUE(is_used(buffer)) << buffer.key();
}

class EveryKind : public EveryModel {};

// Of two ranks, with backward in two parts; of a BatchNorm model as with accumulated gradients.
TEST_P(EveryKind, LearnsTheSameInAPipeline) {
  constexpr int kSteps = 3, kMicroBatches = 2;
  constexpr std::int64_t kSamples = 4;
  const std::string name = GetParam();
  const Tensor input = input_of(name, kSamples);
  const Tensor target = name == "gpt" ? input.roll(1, 1) : torch::arange(kSamples).remainder(5);
  const auto optimizer_of = [](std::vector<Tensor> parameters) {
    return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(0.05).momentum(0.9));
  };
  const auto loss_of = [](const Tensor& scores, const Tensor& wanted) {
    return sum_of_losses(scores, wanted) / wanted.size(0);
  };
  const auto alone = make(name);
  std::vector<double> losses;
  auto optimizer = optimizer_of(alone->parameters());
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    double sum = 0;
    for (int m = 0; m < kMicroBatches; ++m) {
      const Tensor loss =
          loss_of(alone->forward(input.chunk(kMicroBatches)[m]), target.chunk(kMicroBatches)[m]) /
          kMicroBatches;
      loss.backward();
      sum += loss.item<double>();
    }
    optimizer.step();
    losses.push_back(sum);
  }
  for (const char* schedule : {"1f1b", "zb1p"})
    testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
      const auto communicator = make_communicator(job);
      const auto model = make(name);
      Pipeline pipeline(*communicator, model, model->layers(), loss_of,
                        {.schedule = schedule, .micro_batches = kMicroBatches, .random = false});
      auto own = optimizer_of(pipeline.parameters());
      for (int i = 0; i < kSteps; ++i) {
        own.zero_grad();
        const double loss = pipeline.step(input, target);
        own.step();
        const double expected = losses[static_cast<std::size_t>(i)];
        ASSERT_NEAR(loss, expected, 1e-5 * std::abs(expected)) << schedule << ", step " << i;
      }
    });
}

INSTANTIATE_TEST_SUITE_P(All, EveryModel,
                         ::testing::Values("mlp", "cnn", "resnet18", "resnet50", "gpt"),
                         [](const auto& info) { return info.param; });

INSTANTIATE_TEST_SUITE_P(All, EveryKind, ::testing::Values("mlp", "cnn", "resnet18", "gpt"),
                         [](const auto& info) { return info.param; });

TEST(ModelLayers, ARecurrentNetworkIsNoSequence) {
  const auto model =
      make_model("lstm", {.input_shape = {8}, .classes = 11, .width = 8, .depth = 1, .text = true});
  EXPECT_TRUE(model->layers().empty());
}

}  // namespace
}  // namespace asup::models
