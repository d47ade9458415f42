#include "asup/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/data/dataset.h"
#include "asup/models/compute_path.h"
#include "tests/support/thrown.h"

namespace asup::models {
namespace {

using asup::testing::message_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::int64_t parameters_of(const std::string& name, const ModelOptions& options) {
  std::int64_t count = 0;
  for (const auto& parameter : make_model(name, options)->parameters()) count += parameter.numel();
  return count;
}

TEST(Models, ResNetsHaveThePapersParameters) {
  const ModelOptions imagenet{.input_shape = {3, 224, 224}, .classes = 1000};
  EXPECT_EQ(parameters_of("resnet18", imagenet), 11'689'512);
  EXPECT_EQ(parameters_of("resnet34", imagenet), 21'797'672);
  EXPECT_EQ(parameters_of("resnet50", imagenet), 25'557'032);
}

// As torchvision's, in its order, so that weights go from one to the other.
TEST(Models, ResNetsNameTheirTensorsAsTorchvisionDoes) {
  const auto names_of = [](const std::string& model) {
    std::vector<std::string> names;
    for (const auto& parameter : make_model(model, {.input_shape = {3, 8, 8}})->named_parameters())
      names.push_back(parameter.key());
    return names;
  };
  const auto basic = names_of("resnet18"), bottleneck = names_of("resnet50");
  EXPECT_THAT(std::vector(basic.begin(), basic.begin() + 5),
              ElementsAre("conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight",
                          "layer1.0.bn1.weight"));
  EXPECT_THAT(basic, IsSupersetOf({"layer1.1.bn2.bias", "layer2.0.downsample.0.weight",
                                   "layer2.0.downsample.1.bias", "layer4.1.conv2.weight"}));
  EXPECT_THAT(basic, Not(Contains("layer1.0.downsample.0.weight")));
  EXPECT_THAT(std::vector(basic.end() - 2, basic.end()), ElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(bottleneck, IsSupersetOf({"layer1.0.downsample.0.weight", "layer1.0.conv3.weight",
                                        "layer3.5.bn3.weight", "layer4.2.conv3.weight"}));
  const auto resnet = make_model("resnet18", {.input_shape = {3, 8, 8}});
  EXPECT_TRUE(resnet->named_buffers().contains("layer2.0.downsample.1.running_mean"));
}

TEST(Models, StemFollowsTheImageUnlessForced) {
  const auto stem_kernel = [](std::int64_t side, Stem stem) {
    const auto model =
        make_model("resnet18", {.input_shape = {3, side, side}, .classes = 10, .stem = stem});
    return model->named_parameters()["conv1.weight"].size(2);
  };
  EXPECT_EQ(stem_kernel(32, Stem::automatic), 3);
  EXPECT_EQ(stem_kernel(64, Stem::automatic), 3);
  EXPECT_EQ(stem_kernel(65, Stem::automatic), 7);
  EXPECT_EQ(stem_kernel(32, Stem::imagenet), 7);
  EXPECT_EQ(stem_kernel(224, Stem::small), 3);
}

// The last BatchNorm of every block begins at zero, so that each block begins as its shortcut.
TEST(Models, ResidualsMayBeginAtZero) {
  const auto zeroed = [](const std::string& name, bool zero) {
    int count = 0;
    const auto model = make_model(name, {.input_shape = {3, 32, 32}, .zero_init_residual = zero});
    for (const auto& parameter : model->named_parameters())
      count += parameter.key().find("bn") != std::string::npos &&
               parameter.key().ends_with("weight") && parameter.value().eq(0).all().item<bool>();
    return count;
  };
  EXPECT_EQ(zeroed("resnet18", true), 8);
  EXPECT_EQ(zeroed("resnet50", true), 16);
  EXPECT_EQ(zeroed("resnet18", false), 0);
}

// He et al. 2015: variance 2 / fan, of the outputs for ResNets as torchvision does it.
TEST(Models, BeginWithKaimingWeights) {
  torch::manual_seed(1);
  const auto resnet = make_model("resnet18", {.input_shape = {3, 32, 32}});
  const auto& weight = resnet->named_parameters()["layer4.0.conv1.weight"];  // 512 x 256 x 3 x 3
  EXPECT_NEAR(weight.std().item<double>(), std::sqrt(2.0 / (512 * 9)), 1e-4);
  const auto mlp = make_model("mlp", {.width = 512});
  EXPECT_NEAR(mlp->named_parameters()["hidden.1.weight"].std().item<double>(), std::sqrt(2.0 / 512),
              1e-3);
  EXPECT_TRUE(mlp->named_parameters()["hidden.1.bias"].eq(0).all().item<bool>());
}

TEST(Models, AllTakeImagesAndGiveScores) {
  torch::NoGradGuard no_grad;
  for (const auto& info : models()) {
    if (info.text) continue;
    const auto model = make_model(info.name, {.input_shape = {3, 12, 16}, .classes = 7});
    const auto scores = model->forward(torch::randn({2, 3, 12, 16}));
    EXPECT_EQ(scores.sizes().vec(), (std::vector<std::int64_t>{2, 7})) << info.name;
    EXPECT_TRUE(scores.isfinite().all().item<bool>()) << info.name;
  }
}

TEST(Models, ImageNetStemQuartersTheImage) {
  torch::NoGradGuard no_grad;
  const auto model = make_model("resnet18", {.input_shape = {3, 80, 64}, .classes = 5});
  EXPECT_EQ(model->forward(torch::randn({1, 3, 80, 64})).size(1), 5);
}

TEST(Models, MlpHasTheWidthAndDepthAskedFor) {
  EXPECT_EQ(parameters_of("mlp", {}), 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);
  // The benchmark's: three matrices of 4096 x 4096.
  const ModelOptions large{.input_shape = {4096}, .classes = 4096, .width = 4096, .depth = 2};
  EXPECT_EQ(parameters_of("mlp", large), 3 * (4096 * 4096 + 4096));
}

TEST(Models, SameSeedSameWeights) {
  for (const std::string name : {"mlp", "cnn", "resnet18"}) {
    const auto weights = [&](std::uint64_t seed) {
      torch::manual_seed(seed);
      std::vector<torch::Tensor> flat;
      for (const auto& p : make_model(name, {})->parameters()) flat.push_back(p.flatten());
      return torch::cat(flat);
    };
    EXPECT_TRUE(weights(3).equal(weights(3))) << name;
    EXPECT_FALSE(weights(3).equal(weights(4))) << name;
  }
}

TEST(Models, EveryParameterGetsAGradient) {
  for (const auto& info : models()) {
    if (info.text) continue;
    const auto model = make_model(info.name, {.input_shape = {1, 8, 8}});
    model->forward(torch::randn({2, 1, 8, 8})).square().sum().backward();
    for (const auto& p : model->named_parameters())
      EXPECT_TRUE(p.value().grad().defined()) << info.name << " " << p.key();
  }
}

TEST(Models, LossGoesDown) {
  data::DatasetOptions options{.seed = 1};
  options.synthetic.noise = 0.5;
  options.synthetic.shape = {1, 16, 16};
  const auto dataset = data::open_dataset("synthetic", data::Split::train, options);
  std::vector<std::int64_t> indices(20);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
  const data::Batch batch = dataset->get(indices);
  for (const std::string name : {"mlp", "cnn", "resnet18"}) {
    torch::manual_seed(1);
    const auto model = make_model(name, {.input_shape = {1, 16, 16}});
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
    double first = 0, last = 0;
    for (int step = 0; step < 12; ++step) {
      optimizer.zero_grad();
      const auto loss =
          torch::nn::functional::cross_entropy(model->forward(batch.input), batch.target);
      const ConvolutionScope scope(ConvolutionPath::native, Pass::backward);  // never slow
      loss.backward();
      optimizer.step();
      (step == 0 ? first : last) = loss.item<double>();
    }
    EXPECT_LT(last, 0.3 * first) << name;
  }
}

TEST(Models, SayWhatIsWrong) {
  const auto refusal = [](const std::string& name, const ModelOptions& options) {
    return message_of<BadInput>([&] { make_model(name, options); });
  };
  EXPECT_THAT(refusal("resnet-18", {}),
              AllOf(HasSubstr("resnet-18"), HasSubstr("mlp, cnn, resnet18, resnet34, resnet50"),
                    HasSubstr("did you mean 'resnet18'?")));
  EXPECT_THAT(refusal("cnn", {.input_shape = {784}}), HasSubstr("[784]"));
  EXPECT_THAT(refusal("cnn", {.input_shape = {1, 3, 28}}), HasSubstr("3 x 28"));
  EXPECT_THAT(refusal("mlp", {.input_shape = {1, 0, 28}}), HasSubstr("[1, 0, 28]"));
  EXPECT_THAT(refusal("mlp", {.classes = 0}), HasSubstr("at least 1 class"));
  EXPECT_THAT(refusal("mlp", {.width = -1}), HasSubstr("-1"));
}

}  // namespace
}  // namespace asup::models
