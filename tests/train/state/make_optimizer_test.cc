#include "asup/train/state/make_optimizer.h"

#include <gtest/gtest.h>

namespace asup::train {
namespace {

TrainConfig config_of(const std::string& optimizer, double decay) {
  TrainConfig config;
  config.optimizer = optimizer;
  config.lr = 0.1;
  config.weight_decay = decay;
  return config;
}

std::shared_ptr<models::Model> small_gpt() {
  return models::make_model(
      "gpt", {.input_shape = {4}, .classes = 9, .width = 8, .depth = 1, .text = true});
}

double decay_of(const torch::optim::OptimizerParamGroup& group) {
  return dynamic_cast<const torch::optim::AdamWOptions&>(group.options()).weight_decay();
}

// Matrices are wte, wpe and four of the block; biases and norms are the other ten.
TEST(MakeOptimizer, BiasesAndNormsOfALanguageModelDoNotDecay) {
  const auto model = small_gpt();
  const auto optimizer = make_optimizer(config_of("adamw", 0.1), *model);
  const auto& groups = optimizer->param_groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(decay_of(groups[0]), 0.1);
  EXPECT_EQ(decay_of(groups[1]), 0);
  EXPECT_EQ(groups[0].params().size(), 6u);
  EXPECT_EQ(groups[1].params().size(), 10u);
  for (const auto& parameter : groups[0].params()) EXPECT_GT(parameter.dim(), 1);
  for (const auto& parameter : groups[1].params()) EXPECT_EQ(parameter.dim(), 1);
  for (const auto& group : groups) EXPECT_EQ(group.options().get_lr(), 0.1);
}

TEST(MakeOptimizer, EveryOptimizerHasTheseGroups) {
  for (const char* name : {"sgd", "adam", "adamw", "rmsprop", "lars", "lamb", "asup"}) {
    const auto model = small_gpt();
    EXPECT_EQ(make_optimizer(config_of(name, 0.1), *model)->param_groups().size(), 2u) << name;
    EXPECT_EQ(make_optimizer(config_of(name, 0), *model)->param_groups().size(), 1u) << name;
  }
}

TEST(MakeOptimizer, ModelsOfImagesHaveOneGroup) {
  const auto model = models::make_model("mlp", {.input_shape = {1, 4, 4}, .width = 8});
  EXPECT_EQ(make_optimizer(config_of("adamw", 0.1), *model)->param_groups().size(), 1u);
}

}  // namespace
}  // namespace asup::train
