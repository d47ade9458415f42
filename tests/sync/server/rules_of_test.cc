#include "asup/sync/server/rules_of.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/kernels/update.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"
#include "tests/support/thrown.h"
#include "tests/sync/training.h"

namespace asup::sync {
namespace {

using kernels::Rule;
using testing::message_of;
using testing::Mlp;
using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::RMSpropOptions;
using torch::optim::SGDOptions;

// A model's parameters and their state, updated by the kernels alone.
class ByKernels {
 public:
  ByKernels(const Rule& rule, torch::nn::Module& module) : rule_(rule), module_(module) {
    for (const auto& parameter : module.parameters()) {
      std::vector<torch::Tensor> slots;
      for (std::size_t i = 0; i < kernels::state_slots(rule); ++i)
        slots.push_back(torch::zeros_like(parameter.detach()));
      state_.push_back(std::move(slots));
    }
  }

  void step(double lr) {
    ++updates_;
    const auto parameters = module_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      float* slots[kernels::kMostStateSlots] = {};
      for (std::size_t s = 0; s < state_[i].size(); ++s) slots[s] = state_[i][s].data_ptr<float>();
      const kernels::GradientSource source{parameters[i].grad().data_ptr<float>()};
      kernels::update(rule_, {.lr = lr, .updates = updates_}, parameters[i].data_ptr<float>(),
                      slots, {&source, 1}, {}, static_cast<std::size_t>(parameters[i].numel()));
    }
  }

 private:
  const Rule rule_;
  torch::nn::Module& module_;
  std::uint64_t updates_ = 0;
  std::vector<std::vector<torch::Tensor>> state_;
};

void backward(Mlp& model, std::uint64_t step) {
  model.zero_grad();
  testing::loss_of(model, Mlp::batch(step)).backward();
}

// Two models, each following its own gradients, 100 steps at a rate that changes.
template <typename Optimizer, typename Options>
void expect_same_training(Options options, Rule::Kind kind) {
  Mlp by_torch, by_kernels;
  Optimizer optimizer(by_torch.parameters(), options);
  const Rule rule = rules_of(optimizer).at(0);
  EXPECT_EQ(rule.kind, kind);
  ByKernels kernels(rule, by_kernels);
  const double first = options.lr();
  for (std::uint64_t step = 1; step <= 100; ++step) {
    optimizer.param_groups()[0].options().set_lr(first / (1 + 0.01 * static_cast<double>(step)));
    backward(by_torch, step);
    backward(by_kernels, step);
    optimizer.step();
    kernels.step(learning_rates_of(optimizer)[0]);
  }
  EXPECT_GT(testing::distance(testing::snapshot(by_torch), testing::snapshot(Mlp())), 0.01);
  EXPECT_LT(testing::distance(testing::snapshot(by_kernels), testing::snapshot(by_torch)), 1e-6);
}

TEST(RulesOf, Sgd) {
  expect_same_training<torch::optim::SGD>(SGDOptions(0.1), Rule::Kind::sgd);
  expect_same_training<torch::optim::SGD>(SGDOptions(0.1).weight_decay(0.01), Rule::Kind::sgd);
}

TEST(RulesOf, Momentum) {
  expect_same_training<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9), Rule::Kind::momentum);
  expect_same_training<torch::optim::SGD>(
      SGDOptions(0.05).momentum(0.8).dampening(0.5).weight_decay(0.01), Rule::Kind::momentum);
}

TEST(RulesOf, Nesterov) {
  expect_same_training<torch::optim::SGD>(
      SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.01), Rule::Kind::nesterov);
}

TEST(RulesOf, RmsProp) {
  expect_same_training<torch::optim::RMSprop>(RMSpropOptions(0.001), Rule::Kind::rmsprop);
  expect_same_training<torch::optim::RMSprop>(
      RMSpropOptions(0.001).momentum(0.9).weight_decay(0.01), Rule::Kind::rmsprop);
  expect_same_training<torch::optim::RMSprop>(RMSpropOptions(0.001).centered(true).alpha(0.9),
                                              Rule::Kind::rmsprop);
  expect_same_training<torch::optim::RMSprop>(RMSpropOptions(0.001).centered(true).momentum(0.5),
                                              Rule::Kind::rmsprop);
}

TEST(RulesOf, Adam) {
  expect_same_training<torch::optim::Adam>(AdamOptions(0.001), Rule::Kind::adam);
  expect_same_training<torch::optim::Adam>(
      AdamOptions(0.001).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.01), Rule::Kind::adam);
  expect_same_training<torch::optim::Adam>(AdamOptions(0.001).amsgrad(true), Rule::Kind::adam);
}

TEST(RulesOf, AdamW) {
  expect_same_training<torch::optim::AdamW>(AdamWOptions(0.001).weight_decay(0.1),
                                            Rule::Kind::adamw);
  expect_same_training<torch::optim::AdamW>(AdamWOptions(0.001).amsgrad(true), Rule::Kind::adamw);
}

TEST(RulesOf, OwnOptimizers) {
  const Mlp model;
  const auto only_rule_of = [](const torch::optim::Optimizer& optimizer) {
    return rules_of(optimizer).at(0);
  };
  EXPECT_EQ(
      only_rule_of(optim::Lars(model.parameters(),
                               optim::LarsOptions(1).momentum(0.8).weight_decay(0.1).trust(0.01))),
      (Rule{.kind = Rule::Kind::lars, .momentum = 0.8, .weight_decay = 0.1, .trust = 0.01}));
  EXPECT_EQ(only_rule_of(optim::Lamb(model.parameters(), optim::LambOptions(1).betas({0.8, 0.9}))),
            (Rule{.kind = Rule::Kind::lamb, .eps = 1e-6, .beta1 = 0.8, .beta2 = 0.9, .trust = 1}));
  EXPECT_EQ(only_rule_of(
                optim::AsupMomentum(model.parameters(), optim::AsupOptions(1).alpha(0.9).eps(0.1))),
            (Rule{.kind = Rule::Kind::asup, .momentum = 0.9, .alpha = 0.9, .eps = 0.1}));
}

// Biases have neither ratio nor decay: a group of their own, with the same learning rate.
TEST(RulesOf, LarsLeavesBiasesOut) {
  const Mlp model;
  const optim::Lars lars(model.parameters(), optim::LarsOptions(0.5).weight_decay(0.1));
  const auto rules = rules_of(lars);
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[1], (Rule{.kind = Rule::Kind::lars, .momentum = 0.9, .trust = 0}));
  EXPECT_EQ(learning_rates_of(lars), (std::vector{0.5, 0.5}));
  const auto parameters = parameters_of(model);
  const auto groups = groups_of(lars, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(groups[i], parameters[i].tensor.dim() > 1 ? 0u : 1u) << parameters[i].name;
  const optim::Lamb lamb(model.parameters(), optim::LambOptions(0.5).weight_decay(0.1));
  EXPECT_EQ(rules_of(lamb).at(1), (Rule{.kind = Rule::Kind::lamb, .eps = 1e-6, .trust = 0}));
}

TEST(RulesOf, NesterovWithoutMomentumIsPlain) {
  torch::optim::SGD optimizer(Mlp().parameters(), SGDOptions(0.1));
  static_cast<SGDOptions&>(optimizer.param_groups()[0].options()).nesterov(true).dampening(0.5);
  EXPECT_EQ(rules_of(optimizer), std::vector{Rule{}});
}

TEST(RulesOf, RefusesOptimizersWithoutARule) {
  const torch::optim::Adagrad adagrad(Mlp().parameters());
  EXPECT_EQ(message_of<BadInput>([&] { rules_of(adagrad); }),
            "parameter servers have no update rule for torch::optim::Adagrad: use SGD, RMSprop, "
            "Adam or AdamW of torch::optim, or Lars, Lamb or AsupMomentum of asup::optim; or train "
            "by all-reduce (sync = allreduce), which runs any optimizer");
  const torch::optim::LBFGS lbfgs(Mlp().parameters());
  EXPECT_NE(message_of<BadInput>([&] { rules_of(lbfgs); }).find("torch::optim::LBFGS"),
            std::string::npos);
}

// Its step may be anything.
struct OwnSgd : torch::optim::SGD {
  using SGD::SGD;
};

TEST(RulesOf, RefusesDerivedOptimizers) {
  const OwnSgd optimizer(Mlp().parameters(), SGDOptions(0.1));
  EXPECT_NE(message_of<BadInput>([&] { rules_of(optimizer); }).find("OwnSgd"), std::string::npos);
}

TEST(RulesOf, RefusesOptionsThatNoRuleHas) {
  torch::optim::SGD optimizer(Mlp().parameters(), SGDOptions(0.1).momentum(0.9).nesterov(true));
  static_cast<SGDOptions&>(optimizer.param_groups()[0].options()).dampening(0.5);
  EXPECT_EQ(message_of<BadInput>([&] { rules_of(optimizer); }),
            "update rule nesterov: it has no dampening, which is 0.5");
}

std::vector<torch::optim::OptimizerParamGroup> two_groups(const SGDOptions& a,
                                                          const SGDOptions& b) {
  const auto parameters = Mlp().parameters();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{parameters[0]}, std::make_unique<SGDOptions>(a));
  groups.emplace_back(std::vector{parameters[1]}, std::make_unique<SGDOptions>(b));
  return groups;
}

TEST(RulesOf, EachGroupHasItsOwnRuleAndLearningRate) {
  const torch::optim::SGD optimizer(
      two_groups(SGDOptions(0.1).momentum(0.9), SGDOptions(0.2).weight_decay(0.5)),
      SGDOptions(0.5));
  EXPECT_EQ(rules_of(optimizer), (std::vector<Rule>{{.kind = Rule::Kind::momentum, .momentum = 0.9},
                                                    {.weight_decay = 0.5}}));
  EXPECT_EQ(learning_rates_of(optimizer), (std::vector{0.1, 0.2}));
  const auto& groups = optimizer.param_groups();
  EXPECT_EQ(groups_of(optimizer, {{"b", groups[1].params()[0]}, {"a", groups[0].params()[0]}}),
            (std::vector<std::uint32_t>{1, 0}));
}

}  // namespace
}  // namespace asup::sync
