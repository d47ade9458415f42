#include "asup/parallel/pipeline/layers.h"

#include <gtest/gtest.h>

#include "asup/parallel/pipeline/weight_gradients.h"

namespace asup::parallel {
namespace {

using torch::Tensor;

Tensor detached(const Tensor& tensor) {
  return tensor.detach().clone().requires_grad_(tensor.requires_grad());
}

// What torch's own layer computes and what ours does with gradients that wait: outputs, gradients
// of the input at once, those of weights when they are called for.
template <typename Ours, typename Theirs>
void expect_like_torch(Ours ours, Theirs theirs, const Tensor& input) {
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < ours->parameters().size(); ++i)
      theirs->parameters()[i].copy_(ours->parameters()[i]);
  }
  const Tensor mine = detached(input), torchs = detached(input);
  const Tensor expected = theirs->forward(torchs);
  const Tensor gradient = torch::randn_like(expected);
  expected.backward(gradient);

  const auto weights = c10::make_intrusive<WeightGradients>();
  Tensor output;
  {
    const DeferWeightGradients defer(weights);
    output = ours->forward(mine);
  }
  EXPECT_TRUE(torch::equal(output, expected));
  output.backward(gradient);
  if (mine.requires_grad()) {
    EXPECT_TRUE(torch::allclose(mine.grad(), torchs.grad(), 1e-5, 1e-6));
  }
  for (const Tensor& parameter : ours->parameters()) {
    EXPECT_FALSE(parameter.grad().defined()) << "it should wait";
    EXPECT_TRUE(weights->knows(parameter));
  }
  weights->run();
  EXPECT_TRUE(weights->empty());
  for (std::size_t i = 0; i < ours->parameters().size(); ++i)
    EXPECT_TRUE(
        torch::allclose(ours->parameters()[i].grad(), theirs->parameters()[i].grad(), 1e-4, 1e-5));
}

TEST(SplitLayers, LinearIsAsTorchs) {
  torch::manual_seed(1);
  for (const bool bias : {true, false})
    for (const bool needed : {true, false})
      expect_like_torch(Linear(torch::nn::LinearOptions(5, 3).bias(bias)),
                        torch::nn::Linear(torch::nn::LinearOptions(5, 3).bias(bias)),
                        torch::randn({4, 2, 5}).requires_grad_(needed));
}

TEST(SplitLayers, ConvolutionIsAsTorchs) {
  torch::manual_seed(2);
  for (const bool bias : {true, false})
    for (const bool needed : {true, false}) {
      const auto options =
          torch::nn::Conv2dOptions(4, 6, 3).stride(2).padding(1).groups(2).bias(bias);
      expect_like_torch(Conv2d(options), torch::nn::Conv2d(options),
                        torch::randn({2, 4, 9, 9}).requires_grad_(needed));
    }
}

TEST(SplitLayers, EmbeddingIsAsTorchs) {
  torch::manual_seed(3);
  expect_like_torch(Embedding(7, 4), torch::nn::Embedding(7, 4), torch::randint(7, {3, 5}));
}

TEST(SplitLayers, AffineIsLinearWithItsWeightTheOtherWay) {
  torch::manual_seed(4);
  const Tensor x = torch::randn({2, 3, 5}), w = torch::randn({5, 4}), b = torch::randn({4});
  EXPECT_TRUE(torch::allclose(affine(x, w, b), torch::linear(x, w.t(), b), 1e-5, 1e-6));
  const Tensor mine = detached(w).requires_grad_(), torchs = detached(w).requires_grad_();
  const auto weights = c10::make_intrusive<WeightGradients>();
  {
    const DeferWeightGradients defer(weights);
    affine(x, mine, b).square().sum().backward();
  }
  weights->run();
  torch::linear(x, torchs.t(), b).square().sum().backward();
  EXPECT_TRUE(torch::allclose(mine.grad(), torchs.grad(), 1e-4, 1e-4));
}

TEST(SplitLayers, GradientsAddUp) {
  torch::manual_seed(5);
  Linear layer(3, 2);
  const Tensor x = torch::randn({4, 3});
  const auto pass = [&] {
    const auto weights = c10::make_intrusive<WeightGradients>();
    Tensor loss;
    {
      const DeferWeightGradients defer(weights);
      loss = layer->forward(x).sum();
    }
    loss.backward();
    weights->run();
  };
  pass();
  const Tensor once = layer->weight.grad().clone(), bias = layer->bias.grad().clone();
  pass();
  EXPECT_TRUE(torch::allclose(layer->weight.grad(), 2 * once));
  EXPECT_TRUE(torch::allclose(layer->bias.grad(), 2 * bias));
}

TEST(SplitLayers, OutsideTheyAreTorchs) {
  torch::manual_seed(6);
  Linear layer(3, 2);
  layer->forward(torch::randn({4, 3})).sum().backward();
  EXPECT_TRUE(layer->weight.grad().defined());
}

}  // namespace
}  // namespace asup::parallel
