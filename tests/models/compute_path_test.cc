#include "asup/models/compute_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "asup/base/error.h"
#include "asup/kernels/instruction_set.h"
#include "asup/precision/autocast.h"

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
  const ComputeChoice choice =
      measure_compute_path(*model, sample_of(32), {.precision = Precision::fp32});
  EXPECT_LT(std::clock() - start, 4 * CLOCKS_PER_SEC);
  ASSERT_EQ(choice.times.size(), 6u);  // convolutions by three, each with two layouts
  double chosen = 0, best = 1e9;
  for (const auto& time : choice.times) {
    EXPECT_GT(time.seconds, 0);
    best = std::min(best, time.seconds);
    if (time.path == choice.path) chosen = time.seconds;
  }
  EXPECT_LE(chosen, best / (0.95 * 0.95));
  EXPECT_THAT(choice.describe(), HasSubstr("computed by " + name_of(choice.path)));
  for (const torch::Tensor& parameter : model->parameters())
    if (parameter.dim() == 4) {
      EXPECT_TRUE(parameter.is_contiguous(choice.path.channels_last
                                              ? torch::MemoryFormat::ChannelsLast
                                              : torch::MemoryFormat::Contiguous));
    }
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
    const WantedPath wanted{.precision = Precision::fp16};
    EXPECT_EQ(measure_compute_path(*model, sample, wanted, 0.1).times.size(), 8u);
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
  const ComputeChoice choice =
      measure_compute_path(*model, sample_of(4), {.precision = Precision::fp32});
  EXPECT_EQ(choice.path, ComputePath{});
  EXPECT_TRUE(choice.times.empty());
  EXPECT_EQ(choice.describe(), "computed by onednn (nothing to choose)");
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
  const auto choice = measure_compute_path(*model, sample, {.precision = Precision::fp32}, 0.1);
  EXPECT_EQ(choice.times.size(), 3u);
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
  measure_compute_path(*model, sample_of(16), {.precision = Precision::fp32}, 0.02);
  EXPECT_LT(model->smallest, 16);
  EXPECT_GE(model->smallest, 2);
}

TEST(ConvolutionPath, DescribesHowMuchSlowerTheOthersAre) {
  const ComputePath onednn, native{ConvolutionPath::native},
      forward{ConvolutionPath::onednn_forward, true};
  const ComputeChoice choice{native, {{onednn, 2.4}, {native, 1.0}, {forward, 0.99}}};
  EXPECT_EQ(choice.describe(),
            "computed by native (onednn 2.4× slower, onednn-forward channels-last no faster)");
}

// A person who asked for a precision is told where another is faster.
TEST(ComputePath, DescribesWhatPrecisionGains) {
  const ComputePath exact, shorter{.precision = Precision::bf16},
      last{.channels_last = true, .precision = Precision::bf16};
  EXPECT_EQ((ComputeChoice{last, {{exact, 2.0}, {shorter, 1.2}, {last, 1.0}}}).describe(),
            "computed by onednn channels-last bf16 (onednn bf16 1.2× slower, fp32 2.0× slower)");
  EXPECT_EQ((ComputeChoice{shorter, {{exact, 1.0}, {shorter, 3.0}}}).describe(),
            "computed by onednn bf16 (fp32 3.0× faster)");
}

TEST(ComputePath, HasThePrecisionThatIsWanted) {
  const auto model = make_model("mlp", {});
  for (const Precision each : {Precision::fp32, Precision::bf16, Precision::fp16})
    EXPECT_EQ(measure_compute_path(*model, sample_of(4), {.precision = each}, 0.05).path.precision,
              each);
}

TEST(ComputePath, NamesGoBothWays) {
  for (const ComputePath& path :
       {ComputePath{}, ComputePath{ConvolutionPath::native, true},
        ComputePath{ConvolutionPath::onednn_forward, true, Precision::bf16},
        ComputePath{.precision = Precision::fp16}})
    EXPECT_EQ(compute_path_from(name_of(path)), path);
  EXPECT_EQ(name_of(ComputePath{ConvolutionPath::native, true, Precision::bf16}),
            "native channels-last bf16");
  EXPECT_THROW(compute_path_from("onednn channels-first"), BadInput);
  EXPECT_THROW(compute_path_from(""), BadInput);
}

TEST(ComputePath, WeightsKeepTheirValuesInAnotherOrder) {
  const auto model = make_model("cnn", {});
  std::vector<torch::Tensor> before;
  for (const auto& each : model->parameters()) before.push_back(each.detach().clone());
  const auto address = model->parameters().front().unsafeGetTensorImpl();
  lay_out(*model, true);
  EXPECT_EQ(model->parameters().front().unsafeGetTensorImpl(), address);  // an optimizer's key
  for (std::size_t i = 0; i < before.size(); ++i) {
    const torch::Tensor now = model->parameters()[i];
    EXPECT_TRUE(now.equal(before[i]));
    if (now.dim() < 4) continue;
    EXPECT_TRUE(now.is_contiguous(torch::MemoryFormat::ChannelsLast));
  }
  lay_out(*model, false);
  for (const auto& each : model->parameters()) EXPECT_TRUE(each.is_contiguous());
}

// As models do that were written for contiguous images.
TEST(ComputePath, APathThatFailsIsLeftOut) {
  struct Viewing : Model {
    Viewing() { conv = register_module("conv", torch::nn::Conv2d(2, 3, 3)); }
    torch::Tensor forward(torch::Tensor x) override {
      return conv->forward(x).view({x.size(0), -1});
    }
    torch::nn::Conv2d conv{nullptr};
  };
  const auto model = std::make_shared<Viewing>();
  const data::Batch sample{torch::randn({4, 2, 8, 8}), torch::randint(10, {4})};
  const auto choice = measure_compute_path(*model, sample, {.precision = Precision::fp32}, 0.05);
  EXPECT_FALSE(choice.path.channels_last);
  EXPECT_EQ(choice.describe().find("channels-last"), std::string::npos);
  EXPECT_THROW(measure_compute_path(*model, sample,
                                    {.channels_last = true, .precision = Precision::bf16}, 0.05),
               c10::Error);
}

TEST(ComputePath, WeightsOfOnePixelHaveTheStridesOfTheirOrder) {
  struct Pixel : Model {
    Pixel() { conv = register_module("conv", torch::nn::Conv2d(4, 6, 1)); }
    torch::Tensor forward(torch::Tensor x) override { return conv->forward(x); }
    torch::nn::Conv2d conv{nullptr};
  };
  const auto model = std::make_shared<Pixel>();
  lay_out(*model, true);
  EXPECT_EQ(model->conv->weight.strides(), (c10::IntArrayRef{4, 1, 4, 4}));
  lay_out(*model, false);
  EXPECT_EQ(model->conv->weight.strides(), (c10::IntArrayRef{4, 1, 1, 1}));
}

// Every built-in model computes in every precision, nearly what it computes in fp32.
TEST(ComputePath, AllModelsComputeInAllPrecisions) {
  for (const ModelInfo& info : models()) {
    // Larger ones are of a kind, and all of them slow where the processor has no such arithmetic.
    if (info.batch_norm && (info.name != std::string("resnet18") || !kernels::multiplies_bf16()))
      continue;
    ModelOptions options{.input_shape = {3, 16, 16}};
    if (info.text) options = {.input_shape = {16}, .classes = 50, .width = 64, .text = true};
    torch::manual_seed(3);
    const auto model = make_model(info.name, options);
    const torch::Tensor input =
        info.text ? torch::randint(50, {2, 16}) : torch::randn({8, 3, 16, 16});
    const auto forward = [&](const ComputePath& path) {
      lay_out(*model, path.channels_last);
      ConvolutionScope scope(path.convolution, Pass::forward);
      Autocast autocast(torch::kCPU, path.precision);
      return model->forward(laid_out(input, path)).to(torch::kFloat);
    };
    const torch::Tensor exact = forward({}).detach();
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      const ComputePath path = paths_for(*model, {.precision = precision}).front();
      const torch::Tensor shorter = forward(path);
      ConvolutionScope scope(path.convolution, Pass::backward);
      shorter.square().sum().backward();
      const double error = (shorter - exact).norm().item<double>() / exact.norm().item<double>();
      EXPECT_LT(error, 0.1) << info.name << " " << asup::name_of(precision);
      EXPECT_GT(error, 0) << info.name << " " << asup::name_of(precision);
    }
  }
}

}  // namespace
}  // namespace asup::models
