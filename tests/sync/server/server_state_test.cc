#include "asup/sync/server/server_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "asup/base/error.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lars.h"
#include "asup/ps/snapshot.h"
#include "tests/sync/optimizers.h"
#include "tests/sync/training.h"

namespace asup::sync {
namespace {

using asup::testing::loss_of;
using asup::testing::MakeOptimizer;
using asup::testing::maker;
using asup::testing::Mlp;
using torch::optim::AdamOptions;
using torch::optim::RMSpropOptions;
using torch::optim::SGDOptions;

struct OptimizerCase {
  std::string name;
  MakeOptimizer make;
};

class EveryOptimizersServerState : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  EveryOptimizersServerState() { std::filesystem::create_directories(folder_); }
  ~EveryOptimizersServerState() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ =
      std::filesystem::temp_directory_path() / fmt::format("asup-server-state-{}", ::getpid());
  const std::string path_ = folder_ + "/state";
};

void step(Mlp& model, torch::optim::Optimizer& optimizer, int batch) {
  optimizer.zero_grad();
  loss_of(model, Mlp::batch(batch)).backward();
  optimizer.step();
}

// A second process that goes on with what the first one left goes on as the first one does.
TEST_P(EveryOptimizersServerState, ComesBackAsItWent) {
  Mlp model;
  const auto optimizer = GetParam().make(model);
  for (int i = 0; i < 3; ++i) step(model, *optimizer, i);
  ServerState(model, *optimizer, {}).write(path_);

  Mlp other;
  {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < model.parameters().size(); ++i)
      other.parameters()[i].copy_(model.parameters()[i]);
  }
  const auto its_optimizer = GetParam().make(other);
  ServerState(other, *its_optimizer, {}).read(path_);
  for (int i = 3; i < 6; ++i) {
    step(model, *optimizer, i);
    step(other, *its_optimizer, i);
    EXPECT_EQ(
        asup::testing::distance(asup::testing::snapshot(model), asup::testing::snapshot(other)), 0);
  }
}

TEST_P(EveryOptimizersServerState, ThatWasCutShortIsRefused) {
  Mlp model;
  const auto optimizer = GetParam().make(model);
  step(model, *optimizer, 0);
  ServerState(model, *optimizer, {}).write(path_);
  const std::string file = ps::shard_file(path_, 0, 1);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 8);
  const auto fresh = GetParam().make(model);
  EXPECT_THROW(ServerState(model, *fresh, {}).read(path_), BadInput);
  EXPECT_TRUE(fresh->state().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, EveryOptimizersServerState,
    ::testing::Values(
        OptimizerCase{"sgd", maker<torch::optim::SGD>(SGDOptions(0.05))},
        OptimizerCase{"momentum",
                      maker<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9).dampening(0.1))},
        OptimizerCase{"nesterov",
                      maker<torch::optim::SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true))},
        OptimizerCase{"adam", maker<torch::optim::Adam>(AdamOptions(0.01))},
        OptimizerCase{"amsgrad", maker<torch::optim::Adam>(AdamOptions(0.01).amsgrad(true))},
        OptimizerCase{"adamw", maker<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01))},
        OptimizerCase{"rmsprop", maker<torch::optim::RMSprop>(RMSpropOptions(0.01))},
        OptimizerCase{"rmsprop_momentum",
                      maker<torch::optim::RMSprop>(RMSpropOptions(0.01).momentum(0.5))},
        OptimizerCase{"rmsprop_centered",
                      maker<torch::optim::RMSprop>(RMSpropOptions(0.01).centered(true))},
        OptimizerCase{
            "rmsprop_both",
            maker<torch::optim::RMSprop>(RMSpropOptions(0.01).momentum(0.5).centered(true))},
        OptimizerCase{"lars", maker<optim::Lars>(optim::LarsOptions(1.0).momentum(0.9))},
        OptimizerCase{"asup", maker<optim::AsupMomentum>(optim::AsupOptions(0.01))}),
    [](const auto& info) { return info.param.name; });

TEST(ServerState, OfAnotherOptimizerIsRefused) {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("asup-server-state-{}", ::getpid());
  Mlp model;
  torch::optim::Adam adam(model.parameters(), AdamOptions(0.01));
  step(model, adam, 0);
  ServerState(model, adam, {}).write(path);
  torch::optim::SGD sgd(model.parameters(), SGDOptions(0.01).momentum(0.9));
  try {
    ServerState(model, sgd, {}).read(path);
    ADD_FAILURE() << "took Adam's state for that of SGD";
  } catch (const BadInput& refusal) {
    EXPECT_THAT(refusal.what(), ::testing::HasSubstr("was trained by 'adam"));
  }
  std::filesystem::remove(ps::shard_file(path, 0, 1));
}

}  // namespace
}  // namespace asup::sync
