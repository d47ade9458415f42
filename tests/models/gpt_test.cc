#include "asup/models/gpt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "asup/base/error.h"
#include "asup/models/lstm.h"
#include "tests/support/thrown.h"

namespace asup::models {
namespace {

using asup::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelOptions small() {
  return {.input_shape = {16}, .classes = 50, .width = 32, .depth = 2, .text = true, .heads = 4};
}

torch::Tensor tokens(std::int64_t count, std::int64_t length) {
  return torch::randint(50, {count, length}, torch::kInt64);
}

std::int64_t parameters_of(const Model& model) {
  std::int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

class LanguageModels : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Model> make() const {
    torch::manual_seed(4);
    ModelOptions options = small();
    return make_model(GetParam(), options);
  }
};

TEST_P(LanguageModels, ScoreTheNextTokenAtEachPlace) {
  torch::NoGradGuard no_grad;
  const auto model = make();
  const auto scores = model->forward(tokens(3, 16));
  EXPECT_EQ(scores.sizes().vec(), (std::vector<std::int64_t>{3, 16, 50}));
  EXPECT_TRUE(scores.isfinite().all().item<bool>());
  EXPECT_EQ(model->forward(tokens(2, 5)).size(1), 5);
}

TEST_P(LanguageModels, DoNotLookAhead) {
  torch::NoGradGuard no_grad;
  const auto model = make();
  const torch::Tensor text = tokens(2, 16);
  torch::Tensor other = text.clone();
  other.narrow(1, 9, 7).copy_((other.narrow(1, 9, 7) + 1) % 50);
  const auto scores = model->forward(text), changed = model->forward(other);
  EXPECT_TRUE(scores.narrow(1, 0, 9).allclose(changed.narrow(1, 0, 9), 1e-6, 1e-6));
  EXPECT_FALSE(scores.narrow(1, 9, 7).allclose(changed.narrow(1, 9, 7), 1e-3, 1e-3));
}

TEST_P(LanguageModels, LookBack) {
  torch::NoGradGuard no_grad;
  const auto model = make();
  const torch::Tensor text = tokens(1, 16);
  torch::Tensor other = text.clone();
  other[0][0] = (text[0][0] + 1) % 50;
  EXPECT_FALSE(model->forward(text)[0][15].equal(model->forward(other)[0][15]));
}

TEST_P(LanguageModels, EveryParameterGetsAGradient) {
  const auto model = make();
  model->forward(tokens(2, 16)).square().sum().backward();
  for (const auto& p : model->named_parameters())
    EXPECT_TRUE(p.value().grad().defined()) << p.key();
}

TEST_P(LanguageModels, LeaveSomeOutWhileTraining) {
  torch::NoGradGuard no_grad;
  ModelOptions options = small();
  options.dropout = 0.5;
  const auto model = make_model(GetParam(), options);
  const torch::Tensor text = tokens(1, 16);
  EXPECT_FALSE(model->forward(text).equal(model->forward(text)));
  model->eval();
  EXPECT_TRUE(model->forward(text).equal(model->forward(text)));
}

TEST_P(LanguageModels, LearnATextByHeart) {
  const auto model = make();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  const torch::Tensor text = tokens(4, 17);
  const torch::Tensor input = text.narrow(1, 0, 16), target = text.narrow(1, 1, 16);
  double first = 0, last = 0;
  for (int step = 0; step < 120; ++step) {
    optimizer.zero_grad();
    const auto loss =
        torch::nn::functional::cross_entropy(model->forward(input).flatten(0, 1), target.flatten());
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_NEAR(first, std::log(50.0), 0.5);
  EXPECT_LT(last, 0.5 * first);
}

INSTANTIATE_TEST_SUITE_P(Text, LanguageModels, ::testing::Values("gpt", "lstm"));

// 124,439,808: what the paper calls its smallest, with one matrix for both ends.
TEST(Gpt, HasGpt2sParameters) {
  const auto model =
      make_gpt({.input_shape = {1024}, .classes = 50257, .width = 768, .depth = 12, .text = true});
  EXPECT_EQ(parameters_of(*model), 124'439'808);
}

TEST(Gpt, NamesItsTensorsAsGpt2Does) {
  std::vector<std::string> names;
  const auto model = make_gpt(small());
  for (const auto& parameter : model->named_parameters()) names.push_back(parameter.key());
  EXPECT_EQ(names.size(), 2 + 2 * 12 + 2u);
  EXPECT_THAT(std::vector(names.begin(), names.begin() + 14),
              ElementsAre("transformer.wte.weight", "transformer.wpe.weight",
                          "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias",
                          "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias",
                          "transformer.h.0.attn.c_proj.weight", "transformer.h.0.attn.c_proj.bias",
                          "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias",
                          "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_fc.bias",
                          "transformer.h.0.mlp.c_proj.weight", "transformer.h.0.mlp.c_proj.bias"));
  EXPECT_EQ(model->named_parameters()["transformer.h.0.attn.c_attn.weight"].sizes().vec(),
            (std::vector<std::int64_t>{32, 96}));
}

TEST(Gpt, BeginsAsGpt2Does) {
  torch::manual_seed(1);
  const auto model =
      make_gpt({.input_shape = {64}, .classes = 300, .width = 128, .depth = 8, .text = true});
  const auto deviation = [&](const std::string& name) {
    return model->named_parameters()["transformer." + name].std().item<double>();
  };
  for (const char* name :
       {"wte.weight", "wpe.weight", "h.3.attn.c_attn.weight", "h.7.mlp.c_fc.weight"})
    EXPECT_NEAR(deviation(name), 0.02, 0.001) << name;
  for (const char* name : {"h.3.attn.c_proj.weight", "h.0.mlp.c_proj.weight"})
    EXPECT_NEAR(deviation(name), 0.02 / std::sqrt(16.0), 0.0003) << name;
  EXPECT_TRUE(model->named_parameters()["transformer.h.0.mlp.c_fc.bias"].eq(0).all().item<bool>());
}

TEST(Gpt, HasAHeadForEach64) {
  torch::NoGradGuard no_grad;
  const torch::Tensor text = tokens(1, 4);
  const auto scores = [&](std::int64_t width, int heads) {
    ModelOptions options = small();
    options.heads = heads;
    options.width = width;
    torch::manual_seed(4);
    return make_gpt(options)->forward(text);
  };
  constexpr int kAuto = 0;
  EXPECT_TRUE(scores(192, kAuto).equal(scores(192, 3)));
  EXPECT_FALSE(scores(192, kAuto).equal(scores(192, 1)));
  for (const std::int64_t width : {1, 63, 64, 130})
    EXPECT_EQ(scores(width, kAuto).size(2), 50) << width;
}

TEST(Gpt, SaysHowManyHeadsItHas) {
  EXPECT_EQ(heads_of_gpt({.width = 192}), 3);
  EXPECT_EQ(heads_of_gpt({.width = 192, .heads = 6}), 6);
  EXPECT_EQ(heads_of_gpt({}), 2);
}

TEST(Gpt, SaysWhatIsWrong) {
  const auto refusal = [](const std::string& name, const ModelOptions& options) {
    return message_of<BadInput>([&] { make_model(name, options); });
  };
  ModelOptions options = small();
  options.heads = 5;
  EXPECT_THAT(refusal("gpt", options), AllOf(HasSubstr("heads = 5"), HasSubstr("width = 32")));
  EXPECT_THAT(refusal("cnn", small()), HasSubstr("cnn is a model of images"));
  EXPECT_THAT(refusal("mlp", small()), HasSubstr("mlp is a model of images"));
  EXPECT_THAT(refusal("gpt", {}), HasSubstr("gpt is a model of text"));
}

}  // namespace
}  // namespace asup::models
