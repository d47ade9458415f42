// Workers that train by themselves and exchange parameters, against the equations in plain torch.
#include "asup/sync/server/merge_replica.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "tests/sync/server_training.h"

namespace asup::testing {
namespace {

using net::LinkKind;

constexpr int kRounds = 5;
constexpr int kEvery = 3;

struct Case {
  Merge merge;
  int workers;
  ps::pace::Kind pace;
  LinkKind links;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}_of_{}_over_{}", info.param.merge == Merge::easgd ? "easgd" : "mean",
                     ps::pace::name_of(info.param.pace), info.param.workers,
                     asup::testing::name_of(info.param.links));
}

torch::optim::Adam fast_adam(torch::nn::Module& module) {
  return torch::optim::Adam(module.parameters(), torch::optim::AdamOptions(0.01));
}

Batch batch_of(int worker, int step) {
  return Mlp::batch(static_cast<std::uint64_t>(100 * worker + step));
}

void train_alone(Mlp& model, torch::optim::Optimizer& optimizer, int worker, int step) {
  optimizer.zero_grad();
  loss_of(model, batch_of(worker, step)).backward();
  optimizer.step();
}

// Each worker's parameters after the last exchange.
std::vector<std::vector<torch::Tensor>> expected(const Case& one, double elasticity) {
  torch::NoGradGuard no_grad;
  const bool is_easgd = one.merge == Merge::easgd;
  std::vector<Mlp> models(static_cast<std::size_t>(one.workers));
  std::vector<torch::optim::Adam> optimizers;
  for (Mlp& model : models) {
    fill(model, 7);
    optimizers.push_back(fast_adam(model));
  }
  std::vector<torch::Tensor> center = snapshot(models[0]);
  const double rate = is_easgd ? elasticity / one.workers : 1.0 / one.workers;
  for (int round = 0; round < kRounds; ++round) {
    {
      const torch::AutoGradMode with_grad(true);
      for (int worker = 0; worker < one.workers; ++worker)
        for (int step = 0; step < kEvery; ++step)
          train_alone(models[static_cast<std::size_t>(worker)],
                      optimizers[static_cast<std::size_t>(worker)], worker, kEvery * round + step);
    }
    for (std::size_t i = 0; i < center.size(); ++i) {
      const torch::Tensor before = center[i].clone();
      for (Mlp& model : models) {
        torch::Tensor own = model.parameters()[i];
        const torch::Tensor force = rate * (before - own);
        center[i] -= force;
        if (is_easgd) own += force;
      }
      if (is_easgd) continue;
      for (Mlp& model : models) model.parameters()[i].copy_(center[i]);
    }
  }
  std::vector<std::vector<torch::Tensor>> all;
  for (Mlp& model : models) all.push_back(snapshot(model));
  return all;
}

class Merging : public ::testing::TestWithParam<Case> {};

TEST_P(Merging, FollowsTheEquations) {
  const Case& one = GetParam();
  const auto reference = expected(one, 0.8);
  ServerReplicaOptions options;
  options.merge = one.merge;
  options.every = kEvery;
  options.elasticity = 0.8;
  options.pace.kind = one.pace;
  train_with_servers(one.workers, 2, one.links, [&](const ServerStage& stage) {
    Mlp model;
    fill(model, 7);
    auto optimizer = fast_adam(model);
    const auto replica = stage.make(model, optimizer, options);
    for (int step = 0; step < kRounds * kEvery; ++step) {
      optimizer.zero_grad();
      loss_of(model, batch_of(stage.rank, step)).backward();
      EXPECT_EQ(replica->step(), StepResult::applied);
    }
    EXPECT_LT(distance(snapshot(model), reference[static_cast<std::size_t>(stage.rank)]), 1e-6);
    EXPECT_EQ(replica->stats().steps, static_cast<std::uint64_t>(kRounds * kEvery));
    EXPECT_EQ(replica->release().version, static_cast<std::uint64_t>(kRounds));
    if (one.merge == Merge::mean) replica->check_equal();
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Merging,
    ::testing::Values(Case{Merge::easgd, 2, ps::pace::Kind::bsp, LinkKind::shm},
                      Case{Merge::easgd, 3, ps::pace::Kind::bsp, LinkKind::tcp},
                      Case{Merge::easgd, 1, ps::pace::Kind::asp, LinkKind::shm},
                      Case{Merge::mean, 2, ps::pace::Kind::bsp, LinkKind::shm},
                      Case{Merge::mean, 3, ps::pace::Kind::bsp, LinkKind::tcp}),
    name_of);

// One exchanges after the other, so that the center is another one at each: each force is by the
// center as it is just then, and moves worker and center by the same.
TEST(MergingOneByOne, ForcesAreByTheCenterAsItIsAndOpposite) {
  constexpr double kRate = 0.8 / 2;
  ServerReplicaOptions options;
  options.merge = Merge::easgd;
  options.every = 1;
  options.elasticity = 0.8;
  options.pace.kind = ps::pace::Kind::asp;
  train_with_servers(2, 2, LinkKind::tcp, [&](const ServerStage& stage) {
    // Every worker reckons what both do.
    torch::NoGradGuard no_grad;
    std::vector<Mlp> models(2);
    std::vector<torch::optim::Adam> optimizers;
    for (Mlp& model : models) {
      fill(model, 7);
      optimizers.push_back(fast_adam(model));
    }
    std::vector<torch::Tensor> center = snapshot(models[0]);
    Mlp model;
    fill(model, 7);
    auto optimizer = fast_adam(model);
    const auto replica = stage.make(model, optimizer, options);
    for (int turn = 0; turn < 2 * kRounds; ++turn) {
      const int worker = turn % 2;
      Mlp& other = models[static_cast<std::size_t>(worker)];
      {
        const torch::AutoGradMode with_grad(true);
        train_alone(other, optimizers[static_cast<std::size_t>(worker)], worker, turn);
        if (stage.rank == worker) {
          optimizer.zero_grad();
          loss_of(model, batch_of(worker, turn)).backward();
          replica->step();
        }
      }
      for (std::size_t i = 0; i < center.size(); ++i) {
        const torch::Tensor force = kRate * (center[i] - other.parameters()[i]);
        center[i] -= force;
        other.parameters()[i] += force;
      }
      stage.workers.barrier().or_throw();
    }
    EXPECT_LT(distance(snapshot(model), snapshot(models[static_cast<std::size_t>(stage.rank)])),
              1e-6);
    replica->with_mean_model([&] { EXPECT_LT(distance(snapshot(model), center), 1e-6); });
    stage.workers.barrier().or_throw();
  });
}

// Forces are equal and opposite: whoever exchanges when, and how often, the sum of the center and
// of all workers stays; and without gradients all come together at its mean.
TEST(MergingAtAnyPace, KeepsTheSumAndBringsAllTogether) {
  constexpr int kWorkers = 3;
  ServerReplicaOptions options;
  options.merge = Merge::easgd;
  options.every = 1;
  options.pace.kind = ps::pace::Kind::asp;
  std::vector<torch::Tensor> mean;  // of the center, which is as worker 0 was, and of all workers
  for (const std::uint64_t seed : {10u, 20u, 21u, 22u}) {
    Mlp one;
    fill(one, seed);
    const std::vector<torch::Tensor> tensors = snapshot(one);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      seed == 10 ? mean.push_back(tensors[i] / 4) : void(mean[i] += tensors[i] / 4);
  }
  train_with_servers(kWorkers, 2, LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    fill(model, 10);
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.0));
    const auto replica = stage.make(model, optimizer, options);
    fill(model, 20 + static_cast<std::uint64_t>(stage.rank));
    const auto exchange = [&] {
      optimizer.zero_grad();
      loss_of(model, batch_of(stage.rank, 0)).backward();
      replica->step();
    };
    for (int i = 0; i < 5 + 10 * stage.rank; ++i) exchange();
    stage.workers.barrier().or_throw();
    std::vector<torch::Tensor> sum = snapshot(model);
    for (torch::Tensor& tensor : sum) stage.workers.all_reduce(asup::buffer_of(tensor)).or_throw();
    replica->with_mean_model([&] {
      const std::vector<torch::Tensor> center = snapshot(model);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (sum[i] + center[i]) / 4;
    });
    EXPECT_LT(distance(sum, mean), 1e-5);
    for (int i = 0; i < 60; ++i) {
      exchange();
      stage.workers.barrier().or_throw();
    }
    EXPECT_LT(distance(snapshot(model), mean), 1e-3);
    replica->with_mean_model([&] { EXPECT_LT(distance(snapshot(model), mean), 1e-3); });
    stage.workers.barrier().or_throw();
  });
}

// Workers that find their samples themselves, of 1 and of 3 in each of two steps.
TEST(MergingToTheMean, WeighsWorkersByWhatTheyDescribe) {
  ServerReplicaOptions options;
  options.merge = Merge::mean;
  options.every = 2;
  train_with_servers(2, 1, LinkKind::shm, [&](const ServerStage& stage) {
    torch::nn::Linear model(torch::nn::LinearOptions(4, 1).bias(false));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
    const auto replica = stage.make(*model, optimizer, options);
    {
      torch::NoGradGuard no_grad;
      model->weight.fill_(stage.rank);
    }
    for (int step = 0; step < 2; ++step) {
      replica->describe_batch(stage.rank == 0 ? 1 : 3, 0);
      model->weight.sum().backward();
      replica->step();
    }
    EXPECT_FLOAT_EQ(model->weight.min().item<float>(), 0.75f);
    EXPECT_FLOAT_EQ(model->weight.max().item<float>(), 0.75f);
  });
}

// Between exchanges it has its own parameters, at a sync point the servers', and then its own
// again.
TEST(MergingByLeases, AtASyncPointAllHaveTheCenter) {
  ServerReplicaOptions options;
  options.merge = Merge::easgd;
  options.pace.kind = ps::pace::Kind::asp;
  options.work = ps::pace::Workload{
      .steps = 6, .batch = 8, .steps_per_epoch = 6, .last_batch = 0, .sync_points = {3, 6}};
  using Next = ps::Release::Next;
  train_with_servers(2, 1, LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    auto optimizer = fast_adam(model);
    const auto replica = stage.make(model, optimizer, options);
    const auto own = [&] {
      std::vector<torch::Tensor> tensors;
      for (const auto& [name, tensor] : replica->unshared()) tensors.push_back(tensor.clone());
      return tensors;
    };
    int step = 0;
    const auto work = [&] {
      while (replica->release().next == Next::lease)
        for (const bool is_last : {false, true}) {
          optimizer.zero_grad();
          loss_of(model, batch_of(stage.rank, step++)).backward();
          is_last ? void(replica->step()) : replica->step_alone();
        }
    };
    replica->arrive();
    work();
    ASSERT_EQ(replica->release().next, Next::sync_point);
    replica->check_equal();
    EXPECT_GT(distance(snapshot(model), own()), 1e-4);
    const auto before = own();
    stage.workers.barrier().or_throw();
    replica->arrive({0, 1});
    if (replica->release().next == Next::lease) {
      EXPECT_EQ(distance(snapshot(model), before), 0);
    }
    work();
    replica->check_equal();
    stage.workers.barrier().or_throw();
  });
}

}  // namespace
}  // namespace asup::testing
