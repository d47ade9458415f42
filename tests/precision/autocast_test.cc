#include "asup/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup {
namespace {

bool is_on() { return at::autocast::is_autocast_enabled(torch::kCPU); }

torch::ScalarType type_of_product() {
  return torch::randn({4, 4}).matmul(torch::randn({4, 4})).scalar_type();
}

TEST(Autocast, ComputesInThePrecisionWhileItLives) {
  EXPECT_EQ(type_of_product(), torch::kFloat);
  {
    Autocast outer(torch::kCPU, Precision::bf16);
    EXPECT_EQ(type_of_product(), torch::kBFloat16);
    {
      Autocast exact(torch::kCPU, Precision::fp32);
      EXPECT_EQ(type_of_product(), torch::kFloat);
    }
    {
      Autocast inner(torch::kCPU, Precision::fp16);
      EXPECT_EQ(type_of_product(), torch::kHalf);
    }
    EXPECT_EQ(type_of_product(), torch::kBFloat16);
  }
  EXPECT_FALSE(is_on());
  EXPECT_EQ(type_of_product(), torch::kFloat);
}

TEST(Autocast, EndsWithAnException) {
  EXPECT_THROW(
      {
        Autocast autocast(torch::kCPU, Precision::bf16);
        throw Error("in forward");
      },
      Error);
  EXPECT_FALSE(is_on());
}

TEST(Autocast, ParametersAndTheirGradientsStayExact) {
  torch::manual_seed(1);
  torch::nn::Linear layer(8, 8);
  const torch::Tensor input = torch::randn({4, 8});
  torch::Tensor output;
  {
    Autocast autocast(torch::kCPU, Precision::bf16);
    output = layer->forward(input);
  }
  output.to(torch::kFloat).pow(2).sum().backward();
  EXPECT_EQ(layer->weight.scalar_type(), torch::kFloat);
  ASSERT_EQ(layer->weight.grad().scalar_type(), torch::kFloat);
  // Close to the gradient of f32, and not equal to it.
  const torch::Tensor shorter = layer->weight.grad().clone();
  layer->zero_grad();
  layer->forward(input).pow(2).sum().backward();
  const torch::Tensor exact = layer->weight.grad();
  EXPECT_FALSE(shorter.equal(exact));
  EXPECT_LT((shorter - exact).norm().item<double>(), 0.02 * exact.norm().item<double>());
}

// A weight that was made shorter without gradients must not be used again with them.
TEST(Autocast, APartWithoutGradientsTakesNoneFromTheRest) {
  torch::nn::Linear layer(8, 8);
  const torch::Tensor input = torch::randn({4, 8});
  Autocast autocast(torch::kCPU, Precision::bf16);
  {
    torch::NoGradGuard no_grad;
    Autocast part(torch::kCPU, Precision::bf16);
    layer->forward(input);
  }
  layer->forward(input).sum().backward();
  ASSERT_TRUE(layer->weight.grad().defined());
  EXPECT_GT(layer->weight.grad().norm().item<double>(), 0);
}

// The optimizer has changed a weight in its place: what is kept of it is of the step before.
TEST(Autocast, EachStepHasTheWeightsOfItsTime) {
  torch::nn::Linear layer(8, 8);
  const torch::Tensor input = torch::ones({1, 8});
  const auto forward = [&] {
    Autocast autocast(torch::kCPU, Precision::bf16);
    return layer->forward(input).sum().item<double>();
  };
  forward();
  {
    torch::NoGradGuard no_grad;
    layer->weight.fill_(1);
    layer->bias.zero_();
  }
  EXPECT_EQ(forward(), 64);
}

TEST(Precision, NamesGoBothWays) {
  for (const Precision each : {Precision::fp32, Precision::bf16, Precision::fp16})
    EXPECT_EQ(precision_from(std::string(name_of(each))), each);
  EXPECT_THROW(precision_from("bf61"), BadInput);
}

}  // namespace
}  // namespace asup
