#include "asup/sync/server/server_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "asup/optim/asup_momentum.h"
#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/sync/server/rules_of.h"
#include "tests/sync/optimizers.h"
#include "tests/sync/server_training.h"

namespace asup::sync {
namespace {

using asup::testing::loss_of;
using asup::testing::MakeOptimizer;
using asup::testing::maker;
using asup::testing::Mlp;
using asup::testing::part;
using asup::testing::ServerStage;
using asup::testing::train_with_servers;
using torch::optim::AdamOptions;
using torch::optim::RMSpropOptions;
using torch::optim::SGDOptions;

// Several buckets even for a small model.
const ServerReplicaOptions kSmallBuckets{.bucket_bytes = 600, .first_bucket_bytes = 100};

struct OptimizerCase {
  std::string name;
  MakeOptimizer make;
};

class EveryOptimizersServerState : public ::testing::TestWithParam<OptimizerCase> {};

void step(Mlp& model, torch::optim::Optimizer& optimizer, int batch) {
  optimizer.zero_grad();
  loss_of(model, Mlp::batch(batch)).backward();
  optimizer.step();
}

// The tensors and counts that an optimizer has, by parameter.
std::vector<OptimizerState::Slots> slots_of(const Mlp& model, torch::optim::Optimizer& optimizer) {
  const OptimizerState state(optimizer, model.parameters());
  std::vector<OptimizerState::Slots> slots;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    slots.push_back(state.slots(i));
    for (torch::Tensor& tensor : slots.back().tensors) tensor = tensor.clone();
  }
  return slots;
}

// To two servers and back to all workers, with no file: not a bit of it changes.
TEST_P(EveryOptimizersServerState, ComesBackFromServersAsItWent) {
  train_with_servers(2, 2, net::LinkKind::tcp, [&](const ServerStage& stage) {
    Mlp model;
    const auto optimizer = GetParam().make(model);
    for (int i = 0; i < 3; ++i) step(model, *optimizer, i);
    const auto before = slots_of(model, *optimizer);
    const auto replica = stage.make(model, *optimizer, kSmallBuckets);
    EXPECT_TRUE(optimizer->state().empty()) << "it is the servers' now";
    replica->gather_optimizer_state();
    const auto after = slots_of(model, *optimizer);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].updates, before[i].updates);
      ASSERT_EQ(after[i].tensors.size(), before[i].tensors.size());
      for (std::size_t slot = 0; slot < before[i].tensors.size(); ++slot)
        EXPECT_TRUE(torch::equal(after[i].tensors[slot], before[i].tensors[slot]));
    }
  });
}

// For a checkpoint, each worker fetches some of the tensors, by name, and keeps none of them.
TEST_P(EveryOptimizersServerState, IsFetchedByNameInParts) {
  std::map<std::string, torch::Tensor> fetched;
  std::mutex mutex;
  std::vector<NamedTensor> expected;
  train_with_servers(3, 2, net::LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    const auto optimizer = GetParam().make(model);
    for (int i = 0; i < 3; ++i) step(model, *optimizer, i);
    auto before = named_state(*optimizer, parameters_of(model));
    for (auto& [name, tensor] : before) tensor = tensor.clone();
    const auto replica = stage.make(model, *optimizer, kSmallBuckets);
    const auto part = replica->fetch_optimizer_state();
    EXPECT_TRUE(optimizer->state().empty());
    const std::lock_guard lock(mutex);
    for (const auto& [name, tensor] : part) {
      EXPECT_FALSE(fetched.contains(name)) << name;
      fetched[name] = tensor;
    }
    expected = before;
  });
  std::size_t tensors = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("step/")) continue;  // servers count where some optimizers do not
    ++tensors;
    ASSERT_TRUE(fetched.contains(name)) << name;
    EXPECT_TRUE(torch::equal(fetched[name], tensor)) << name;
  }
  EXPECT_EQ(tensors, static_cast<std::size_t>(std::count_if(
                         fetched.begin(), fetched.end(),
                         [](const auto& named) { return !named.first.starts_with("step/"); })));
}

// By all-reduce, through servers, by all-reduce: the course of one process that trains alone.
TEST_P(EveryOptimizersServerState, GoesWithARunThatChangesItsWayTwice) {
  Mlp alone;
  const auto lone = GetParam().make(alone);
  for (int i = 0; i < 9; ++i) step(alone, *lone, i);
  train_with_servers(2, 2, net::LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    const auto optimizer = GetParam().make(model);
    const auto train = [&](std::unique_ptr<Replica> replica, int first) {
      for (int i = first; i < first + 3; ++i) {
        optimizer->zero_grad();
        loss_of(model, part(Mlp::batch(i), stage.rank, 2)).backward();
        replica->step();
      }
      replica->gather_optimizer_state();
      optimizer->zero_grad();
    };
    train(make_all_reduce_replica(stage.workers, model, *optimizer), 0);
    train(stage.make(model, *optimizer, kSmallBuckets), 3);
    train(make_all_reduce_replica(stage.workers, model, *optimizer), 6);
    EXPECT_LT(
        asup::testing::distance(asup::testing::snapshot(model), asup::testing::snapshot(alone)),
        1e-5);
  });
}

// Parameters have one, two or three floats of state each.
std::unique_ptr<torch::optim::Optimizer> unlike_groups(torch::nn::Module& module) {
  const RMSpropOptions options[] = {RMSpropOptions(0.01), RMSpropOptions(0.02).momentum(0.5),
                                    RMSpropOptions(0.03).momentum(0.5).centered(true)};
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (std::size_t i = 0; i < module.parameters().size(); ++i)
    groups.emplace_back(std::vector{module.parameters()[i]},
                        std::make_unique<RMSpropOptions>(options[i % 3]));
  return std::make_unique<torch::optim::RMSprop>(std::move(groups), options[0]);
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
        OptimizerCase{"lamb", maker<optim::Lamb>(optim::LambOptions(0.01))},
        OptimizerCase{"asup", maker<optim::AsupMomentum>(optim::AsupOptions(0.01))},
        OptimizerCase{"unlike_groups", unlike_groups}),
    [](const auto& info) { return info.param.name; });

// In the midst of a step: what servers have gathered goes into a checkpoint by its names, and from
// there to servers again, unless the optimizer has stepped since.
TEST(ServerState, KeepsWhatWasGatheredOfAStep) {
  Mlp model, other;
  torch::optim::Adam adam(model.parameters(), AdamOptions(0.01));
  torch::optim::Adam another(other.parameters(), AdamOptions(0.01));
  const auto layout =
      flat_space(parameters_of(model), ServerReplicaOptions().bucket_sizes()).layout;
  const std::vector<double> updates(layout.tensors.size(), 2.25);
  std::vector<float> gathered(layout.elements), read(layout.elements);
  for (const auto& tensor : layout.tensors)
    std::fill(gathered.begin() + static_cast<long>(tensor.range.begin),
              gathered.begin() + static_cast<long>(tensor.range.end), 0.5f);
  const layout::Range all{0, layout.elements};
  ServerState from(adam, parameters_of(model), layout);
  from.begin_write(updates, all);
  from.write(2, all, gathered.data());
  from.end_write();
  std::map<std::string, torch::Tensor> saved;
  for (const auto& [name, tensor] : named_state(adam, parameters_of(model))) saved[name] = tensor;
  for (const auto& [name, tensor] : saved)
    EXPECT_THAT(state_names(another, parameters_of(other)), ::testing::Contains(name));
  set_named_state(another, parameters_of(other), saved);
  ServerState to(another, parameters_of(other), layout);
  EXPECT_EQ(to.updates(), updates);
  to.read(2, all, read.data());
  EXPECT_EQ(read, gathered);

  step(other, another, 0);
  EXPECT_EQ(to.updates(), std::vector<double>(layout.tensors.size(), 3));
  to.read(2, all, read.data());
  EXPECT_EQ(read, std::vector<float>(layout.elements));
}

// A parameter that was never used has no state and no count; it is still so on the way back.
TEST(ServerState, KeepsCountsOfEachParameter) {
  Mlp model;
  torch::optim::Adam adam(model.parameters(), AdamOptions(0.01));
  for (int i = 0; i < 3; ++i) {
    adam.zero_grad();
    loss_of(model, Mlp::batch(i)).backward();
    if (i == 1) model.first->weight.mutable_grad().reset();
    model.second->bias.mutable_grad().reset();
    adam.step();
  }
  const auto before = slots_of(model, adam);
  const auto layout =
      flat_space(parameters_of(model), ServerReplicaOptions().bucket_sizes()).layout;
  ServerState state(adam, parameters_of(model), layout);
  const auto updates = state.updates();
  EXPECT_THAT(updates, ::testing::UnorderedElementsAre(2, 3, 3, 0, 3, 3));
  state.begin_write(updates, {0, layout.elements});
  const auto after = slots_of(model, adam);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].updates, before[i].updates);
    EXPECT_EQ(after[i].tensors.size(), before[i].tensors.size());
  }
}

}  // namespace
}  // namespace asup::sync
