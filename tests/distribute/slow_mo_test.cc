// What SlowMo promises beyond three steps of every combination.
#include "asup/sync/averaging/slow_mo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/distribute/distribute.h"
#include "asup/sync/averaging/local_sgd.h"
#include "tests/support/ranks.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using asup::testing::run_ranks;
using testing::distance;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::snapshot;

constexpr double kRate = 0.05;

torch::optim::SGD plain_sgd(torch::nn::Module& module) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(kRate));
}

void step(Mlp& model, torch::optim::Optimizer& optimizer, int rank, int number) {
  optimizer.zero_grad();
  loss_of(model, part(Mlp::batch(static_cast<std::uint64_t>(number)), rank, 2)).backward();
}

// Algorithm 1 of the paper, for two workers on one thread.
std::vector<torch::Tensor> by_hand(const SlowMo& options, int rounds) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> x, u;
  Mlp first;
  for (const auto& tensor : snapshot(first)) {
    x.push_back(tensor.clone());
    u.push_back(torch::zeros_like(tensor));
  }
  int number = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<torch::Tensor> mean;
    for (const auto& tensor : x) mean.push_back(torch::zeros_like(tensor));
    for (int rank = 0; rank < 2; ++rank) {
      Mlp model;
      auto parameters = model.parameters();
      for (std::size_t i = 0; i < x.size(); ++i) parameters[i].copy_(x[i]);
      auto optimizer = plain_sgd(model);
      for (int k = 0; k < options.every; ++k) {
        torch::AutoGradMode gradients(true);
        step(model, optimizer, rank, number + k);
        optimizer.step();
      }
      for (std::size_t i = 0; i < x.size(); ++i) mean[i].add_(parameters[i], 0.5);
    }
    number += static_cast<int>(options.every);
    for (std::size_t i = 0; i < x.size(); ++i) {
      u[i].mul_(options.slow_momentum).add_(x[i] - mean[i], 1 / kRate);
      x[i].sub_(u[i], options.slow_lr * kRate);
    }
  }
  return x;
}

std::vector<torch::Tensor> trained(const Strategy& strategy, int steps) {
  std::vector<torch::Tensor> result;
  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    Mlp model;
    auto optimizer = plain_sgd(model);
    const auto replica = distribute(job, model, optimizer, strategy);
    for (int number = 0; number < steps; ++number) {
      step(model, optimizer, job.rank(), number);
      replica->step();
    }
    replica->synchronize();
    replica->check_equal();
    if (job.rank() == 0) result = snapshot(model);
  });
  return result;
}

TEST(SlowMo, FollowsThePaper) {
  const SlowMo options{.every = 3, .slow_lr = 0.8, .slow_momentum = 0.6};
  EXPECT_LT(distance(trained(options, 12), by_hand(options, 4)), 1e-5);
}

TEST(SlowMo, WithoutMomentumIsLocalSgd) {
  const auto slow = trained(SlowMo{.every = 4, .slow_lr = 1, .slow_momentum = 0}, 8);
  EXPECT_LT(distance(slow, trained(LocalSgd{.every = 4}, 8)), 1e-5);
}

}  // namespace
}  // namespace asup
