#include "asup/sync/model/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"
#include "asup/tensors/tensor_places.h"
#include "tests/support/lies_in_file.h"
#include "tests/sync/optimizers.h"
#include "tests/sync/training.h"

namespace asup::sync {
namespace {

using asup::testing::loss_of;
using asup::testing::MakeOptimizer;
using asup::testing::maker;
using asup::testing::Mlp;
using asup::testing::train_ranks;
using net::LinkKind;

struct OptimizerCase {
  std::string name;
  MakeOptimizer make;
  std::size_t tensors;  // of a parameter
};

class EveryOptimizersState : public ::testing::TestWithParam<OptimizerCase> {};

// Each rank has stepped on samples of its own: all get the mean.
TEST_P(EveryOptimizersState, IsAveraged) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    const auto optimizer = GetParam().make(model);
    for (int i = 0; i < 2; ++i) {
      optimizer->zero_grad();
      loss_of(model, Mlp::batch(10 * communicator.rank() + i)).backward();
      optimizer->step();
    }
    const OptimizerState state(*optimizer, model.parameters());
    std::vector<torch::Tensor> means;
    for (const auto& kind : state.tensors())
      for (const torch::Tensor& tensor : kind) {
        means.push_back(tensor.clone());
        communicator.all_reduce(buffer_of(means.back()), ReduceOp::average).or_throw();
        EXPECT_FALSE(torch::equal(tensor, means.back()));
      }
    average_state(communicator, *optimizer, parameters_of(model));
    std::size_t place = 0;
    for (const auto& kind : state.tensors())
      for (const torch::Tensor& tensor : kind)
        EXPECT_TRUE(torch::allclose(tensor, means.at(place++), 1e-6, 1e-12));
    EXPECT_EQ(place, means.size());
    EXPECT_EQ(place, GetParam().tensors * model.parameters().size());
  });
}

// Rank 0 has stepped thrice, the others never: they get what rank 0 has, as zeros, and count on
// from its steps.
TEST_P(EveryOptimizersState, IsCompletedWhereItIsMissing) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    const auto optimizer = GetParam().make(model);
    OptimizerState state(*optimizer, model.parameters());
    const auto step = [&] {
      optimizer->zero_grad();
      loss_of(model, Mlp::batch(1)).backward();
      optimizer->step();
    };
    if (communicator.rank() == 0)
      for (int i = 0; i < 3; ++i) step();
    std::vector<double> prints(2);
    const auto compare = [&] {
      double own = state.fingerprint();
      communicator.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(prints)))
          .or_throw();
    };
    compare();
    EXPECT_EQ(prints[0] != prints[1], GetParam().tensors > 0);
    state.complete(state.most_counts(communicator));
    compare();
    EXPECT_EQ(prints[0], prints[1]);

    const auto tensors = state.tensors();
    ASSERT_EQ(tensors.size(), GetParam().tensors);
    for (const auto& kind : tensors) {
      double size = 0;
      for (std::size_t i = 0; i < kind.size(); ++i) {
        EXPECT_EQ(kind[i].sizes(), model.parameters()[i].sizes());
        size += kind[i].abs().sum().item<double>();
      }
      EXPECT_EQ(size > 0, communicator.rank() == 0);
    }
    step();  // with what it was given
    compare();
    EXPECT_EQ(prints[0], prints[1]);
  });
}

TEST_P(EveryOptimizersState, IsResetToTheFirstStep) {
  Mlp model, fresh;
  const auto optimizer = GetParam().make(model), other = GetParam().make(fresh);
  const auto step = [](Mlp& model, torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    loss_of(model, Mlp::batch(1)).backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) step(model, *optimizer);
  OptimizerState(*optimizer, model.parameters()).reset();
  {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < fresh.parameters().size(); ++i)
      fresh.parameters()[i].copy_(model.parameters()[i]);
  }
  step(model, *optimizer);
  step(fresh, *other);
  EXPECT_LT(asup::testing::distance(asup::testing::snapshot(model), asup::testing::snapshot(fresh)),
            1e-7);
}

using torch::optim::AdamOptions;
using torch::optim::RMSpropOptions;
INSTANTIATE_TEST_SUITE_P(
    Optimizers, EveryOptimizersState,
    ::testing::Values(
        OptimizerCase{"sgd", maker<torch::optim::SGD>(torch::optim::SGDOptions(0.05)), 0},
        OptimizerCase{"momentum",
                      maker<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9)), 1},
        OptimizerCase{"adam", maker<torch::optim::Adam>(AdamOptions(0.01)), 2},
        OptimizerCase{"amsgrad", maker<torch::optim::Adam>(AdamOptions(0.01).amsgrad(true)), 3},
        OptimizerCase{"adamw", maker<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01)), 2},
        OptimizerCase{"rmsprop", maker<torch::optim::RMSprop>(RMSpropOptions(0.01)), 1},
        OptimizerCase{
            "centered",
            maker<torch::optim::RMSprop>(RMSpropOptions(0.01).momentum(0.5).centered(true)), 3},
        OptimizerCase{"lamb", maker<optim::Lamb>(optim::LambOptions(0.01)), 2},
        OptimizerCase{"lars", maker<optim::Lars>(optim::LarsOptions(1.0).momentum(0.9)), 1}),
    [](const auto& info) { return info.param.name; });

class Unknown : public torch::optim::Optimizer {
 public:
  explicit Unknown(const std::vector<torch::Tensor>& parameters)
      : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  torch::Tensor step(LossClosure = nullptr) override { return {}; }
};

TEST(OptimizerState, OfAnUnknownOptimizerIsRefused) {
  Mlp model;
  Unknown optimizer(model.parameters());
  try {
    OptimizerState state(optimizer, model.parameters());
    ADD_FAILURE() << "accepted an optimizer that nobody knows";
  } catch (const BadInput& refusal) {
    EXPECT_THAT(refusal.what(), ::testing::HasSubstr("merge-state = keep"));
  }
}

// As it is read from a checkpoint, or taken over from others.
TEST(OptimizerStateOnDisk, LiesThereWhereItIsSetOrCompleted) {
  const TensorFile file("/var/tmp");
  const OptimizerStateIn scope(file);
  const auto weight = torch::ones({1 << 20}).requires_grad_();
  const std::vector<NamedTensor> parameters = {{"weight", weight}};
  torch::optim::SGD optimizer(std::vector<torch::Tensor>{weight},
                              torch::optim::SGDOptions(0.1).momentum(0.9));
  OptimizerState state(optimizer, {weight});
  const auto lies_in_file = [&] {
    return asup::testing::lies_in_file(state.tensor(0, 0).data_ptr());
  };
  state.complete({2, 0, 0});
  EXPECT_TRUE(lies_in_file());
  std::map<std::string, torch::Tensor> read;
  for (const auto& [name, tensor] : named_state(optimizer, parameters)) read[name] = tensor.clone();
  state.clear();
  set_named_state(optimizer, parameters, read);
  EXPECT_TRUE(lies_in_file());
}

}  // namespace
}  // namespace asup::sync
