#include "asup/models/convolution_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "asup/base/error.h"

namespace asup::models {
namespace {

using ::testing::HasSubstr;

bool onednn_is_on() { return at::globalContext().userEnabledMkldnn(); }

data::Batch sample_of(std::int64_t count) {
  torch::manual_seed(5);
  return {torch::randn({count, 1, 28, 28}), torch::randint(10, {count})};
}

struct Passes {
  torch::Tensor output, weight_gradient, input_gradient;
};

// One convolution with a fixed gradient of its output: what backward gives depends on backward's
// own implementation alone.
Passes run(ConvolutionPath path) {
  torch::manual_seed(1);
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(16, 32, 3).padding(1));
  const auto input = torch::randn({4, 16, 14, 14}).requires_grad_(true);
  const auto gradient = torch::randn({4, 32, 14, 14});
  torch::Tensor output;
  {
    ConvolutionScope scope(path, Pass::forward);
    output = convolution->forward(input);
  }
  ConvolutionScope scope(path, Pass::backward);
  output.backward(gradient);
  return {output.detach(), convolution->weight.grad(), input.grad()};
}

TEST(ConvolutionPath, EachPassGoesItsWay) {
  const Passes onednn = run(ConvolutionPath::onednn), native = run(ConvolutionPath::native),
               mixed = run(ConvolutionPath::onednn_forward);
  EXPECT_TRUE(onednn.output.allclose(native.output, 1e-4, 1e-5));
  EXPECT_TRUE(onednn.weight_gradient.allclose(native.weight_gradient, 1e-4, 1e-3));
  EXPECT_TRUE(onednn.input_gradient.allclose(native.input_gradient, 1e-4, 1e-4));

  // The mixed path has oneDNN's bits forward, and the native ones backward.
  EXPECT_TRUE(mixed.output.equal(onednn.output));
  EXPECT_TRUE(mixed.weight_gradient.equal(native.weight_gradient));
  EXPECT_TRUE(mixed.input_gradient.equal(native.input_gradient));
  if (at::globalContext().hasMKLDNN()) {
    EXPECT_FALSE(onednn.weight_gradient.equal(native.weight_gradient))
        << "the two implementations round alike here: this test shows nothing";
  }
}

TEST(ConvolutionPath, ScopesPutTheFlagBack) {
  const bool before = onednn_is_on();
  {
    ConvolutionScope outer(ConvolutionPath::native, Pass::forward);
    EXPECT_FALSE(onednn_is_on());
    {
      ConvolutionScope inner(ConvolutionPath::onednn_forward, Pass::forward);
      EXPECT_TRUE(onednn_is_on());
    }
    EXPECT_FALSE(onednn_is_on());
    ConvolutionScope inner(ConvolutionPath::onednn, Pass::backward);
    EXPECT_TRUE(onednn_is_on());
  }
  {
    ConvolutionScope scope(ConvolutionPath::onednn_forward, Pass::backward);
    EXPECT_FALSE(onednn_is_on());
  }
  EXPECT_EQ(onednn_is_on(), before);
}

TEST(ConvolutionPath, NamesGoBothWays) {
  for (const auto path :
       {ConvolutionPath::onednn, ConvolutionPath::native, ConvolutionPath::onednn_forward})
    EXPECT_EQ(convolution_path_from(std::string(name_of(path))), path);
  try {
    convolution_path_from("onednn-foward");
    FAIL() << "no BadInput";
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'onednn-forward'?"));
  }
}

// A path is chosen only where it is the fastest, or no other is clearly faster.
TEST(ConvolutionPath, MeasuresAllAndTakesTheFastest) {
  const auto model = make_model("cnn", {});
  const std::clock_t start = std::clock();  // of this process, not of a busy machine
  const ConvolutionChoice choice = measure_convolution_path(*model, sample_of(32));
  EXPECT_LT(std::clock() - start, 3 * CLOCKS_PER_SEC);
  ASSERT_EQ(choice.times.size(), 3u);
  double chosen = 0, best = 1e9;
  for (const auto& time : choice.times) {
    EXPECT_GT(time.seconds, 0);
    best = std::min(best, time.seconds);
    if (time.path == choice.path) chosen = time.seconds;
  }
  EXPECT_LE(chosen, best / (0.95 * 0.95));
  EXPECT_THAT(choice.describe(),
              HasSubstr("convolution path: " + std::string(name_of(choice.path))));
}

struct CountCalls : torch::autograd::FunctionPostHook {
  explicit CountCalls(int& calls) : calls(calls) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    ++calls;
    return outputs;
  }
  int& calls;
};

// BatchNorm statistics, gradients, weights and the random generator.
TEST(ConvolutionPath, MeasurementLeavesNoTrace) {
  struct Noisy : Model {
    Noisy() {
      conv = register_module("conv", torch::nn::Conv2d(1, 4, 3));
      norm = register_module("norm", torch::nn::BatchNorm2d(4));
      drop = register_module("drop", torch::nn::Dropout(0.5));
      output = register_module("output", torch::nn::Linear(4, 10));
    }
    torch::Tensor forward(torch::Tensor x) override {
      return output->forward(drop->forward(norm->forward(conv->forward(x)).mean({2, 3})));
    }
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
    torch::nn::Dropout drop{nullptr};
    torch::nn::Linear output{nullptr};
  };
  const auto model = std::make_shared<Noisy>();
  const data::Batch sample = sample_of(8);
  model->forward(sample.input).sum().backward();  // statistics and gradients worth keeping

  const auto state_of = [&] {
    std::vector<torch::Tensor> state;
    for (const auto& p : model->parameters()) {
      state.push_back(p.detach().clone());
      state.push_back(p.grad().clone());
    }
    for (const auto& b : model->buffers()) state.push_back(b.clone());
    state.push_back(at::globalContext().defaultGenerator(at::kCPU).get_state());
    return state;
  };
  int calls = 0;  // of a hook such as a replica's
  const auto accumulator = torch::autograd::impl::grad_accumulator(model->conv->weight);
  accumulator->add_post_hook(std::make_unique<CountCalls>(calls));

  const auto before = state_of();
  const bool flag = onednn_is_on();
  {
    torch::NoGradGuard no_grad;  // must not matter
    EXPECT_EQ(measure_convolution_path(*model, sample, 0.1).times.size(), 3u);
  }
  const auto after = state_of();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i])) << i;
  EXPECT_EQ(onednn_is_on(), flag);
  EXPECT_TRUE(model->is_training());
  EXPECT_EQ(calls, 0);
  model->forward(sample.input).sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST(ConvolutionPath, NeedsNoMeasurementWithoutConvolutions) {
  const auto model = make_model("mlp", {});
  const ConvolutionChoice choice = measure_convolution_path(*model, sample_of(4));
  EXPECT_EQ(choice.path, ConvolutionPath::onednn);
  EXPECT_TRUE(choice.times.empty());
  EXPECT_EQ(choice.describe(), "convolution path: onednn (nothing to choose)");
}

TEST(ConvolutionPath, IsMeasuredOnTextToo) {
  struct Filter : Model {
    Filter() {
      embedding = register_module("embedding", torch::nn::Embedding(7, 4));
      conv = register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(4, 7, 1)));
    }
    torch::Tensor forward(torch::Tensor tokens) override {
      return conv->forward(embedding->forward(tokens).transpose(1, 2)).transpose(1, 2);
    }
    torch::nn::Embedding embedding{nullptr};
    torch::nn::Conv1d conv{nullptr};
  };
  const auto model = std::make_shared<Filter>();
  const data::Batch sample{torch::randint(7, {4, 9}), torch::randint(7, {4, 9})};
  EXPECT_EQ(measure_convolution_path(*model, sample, 0.1).times.size(), 3u);
}

// Sixteen images would take seconds: it works with fewer.
TEST(ConvolutionPath, ShortensTheSampleOfASlowModel) {
  struct Counting : Model {
    Counting() { conv = register_module("conv", torch::nn::Conv2d(1, 1, 3)); }
    torch::Tensor forward(torch::Tensor x) override {
      smallest = std::min(smallest, x.size(0));
      std::this_thread::sleep_for(std::chrono::milliseconds(2 * x.size(0)));
      return conv->forward(x).flatten(1);
    }
    torch::nn::Conv2d conv{nullptr};
    std::int64_t smallest = 1000;
  };
  const auto model = std::make_shared<Counting>();
  measure_convolution_path(*model, sample_of(16), 0.02);
  EXPECT_LT(model->smallest, 16);
  EXPECT_GE(model->smallest, 2);
}

TEST(ConvolutionPath, DescribesHowMuchSlowerTheOthersAre) {
  const ConvolutionChoice choice{ConvolutionPath::native,
                                 {{ConvolutionPath::onednn, 2.4},
                                  {ConvolutionPath::native, 1.0},
                                  {ConvolutionPath::onednn_forward, 0.99}}};
  EXPECT_EQ(choice.describe(),
            "convolution path: native (onednn 2.4× slower, onednn-forward no faster)");
}

}  // namespace
}  // namespace asup::models
