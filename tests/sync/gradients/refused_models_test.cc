// Models and optimizers that all-reduce refuses, and what it notices of them later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/sync/gradients/all_reduce_training.h"

namespace asup {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;
using testing::Mlp;
using testing::sgd;
using testing::train;
using testing::train_ranks;

template <typename Prepare>
void expect_refused(const Prepare& prepare, const char* message) {
  train_ranks(1, LinkKind::inproc, [&](Communicator& communicator) {
    Mlp model;
    try {
      const std::unique_ptr<torch::optim::Optimizer> optimizer = prepare(model);
      make_all_reduce_replica(communicator, model, *optimizer);
      ADD_FAILURE() << "accepted what it should not";
    } catch (const BadInput& refusal) {
      EXPECT_THAT(refusal.what(), HasSubstr(message));
    }
  });
}

TEST(ModelsOfAllReduce, RefusesComplexParameters) {
  expect_refused(
      [](Mlp& model) {
        model.register_parameter("phase", torch::zeros({2}, torch::kComplexFloat));
        return std::make_unique<torch::optim::SGD>(model.parameters(), 0.1);
      },
      "parameter phase is 2 ComplexFloat");
}

TEST(ModelsOfAllReduce, RefusesAnOptimizerOfOtherParameters) {
  expect_refused(
      [](Mlp& model) {
        auto parameters = model.parameters();
        parameters.push_back(torch::zeros({7}, torch::requires_grad()));
        return std::make_unique<torch::optim::SGD>(parameters, 0.1);
      },
      "group 0 of the optimizer holds a parameter (7 f32) that the model does not have");
}

TEST(ModelsOfAllReduce, RefusesLbfgs) {
  expect_refused(
      [](Mlp& model) { return std::make_unique<torch::optim::LBFGS>(model.parameters()); },
      "LBFGS");
}

TEST(ModelsOfAllReduce, NoticesWhatIsUnfrozenLater) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    model.second->bias.set_requires_grad(false);
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    train(*replica, optimizer, model, communicator, 0, 1);
    model.second->bias.set_requires_grad(true);
    try {
      train(*replica, optimizer, model, communicator, 1, 2);
      ADD_FAILURE() << "an unfrozen parameter went unnoticed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("parameter second.bias requires a gradient now"));
    }
  });
}

TEST(ModelsOfAllReduce, WhatIsFrozenLaterStays) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    train(*replica, optimizer, model, communicator, 0, 1);
    model.second->weight.set_requires_grad(false);
    const auto frozen = model.second->weight.clone();
    train(*replica, optimizer, model, communicator, 1, 3);
    EXPECT_TRUE(torch::equal(model.second->weight, frozen));
    replica->check_equal();
  });
}

TEST(ModelsOfAllReduce, NoticesAParameterThatTheOptimizerGotLater) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    train(*replica, optimizer, model, communicator, 0, 1);
    optimizer.add_param_group(torch::optim::OptimizerParamGroup(
        std::vector<torch::Tensor>{torch::zeros({7}, torch::requires_grad())}));
    EXPECT_THROW(train(*replica, optimizer, model, communicator, 1, 2), BadInput);
  });
}

}  // namespace
}  // namespace asup
