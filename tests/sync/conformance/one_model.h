// The models of all ranks are one: at the start, when it is asked for, and in a test.
#pragma once

#include "tests/sync/conformance/replica_case.h"

namespace asup::testing {

TEST_P(ReplicaConformance, StartsFromRankZerosWeightsAndBuffers) {
  Mlp zero;
  fill(zero, 1);
  run([&](const Trainee& trainee) {
    Mlp model;
    fill(model, 1 + 100 * trainee.rank);
    const auto counter = model.register_buffer("counter", torch::full({2}, trainee.rank));
    const auto optimizer = plain_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    EXPECT_EQ(distance(snapshot(model), snapshot(zero)), 0);
    EXPECT_EQ(counter.sum().item<int>(), 0);
    replica->check_equal();
  });
}

TEST_P(ReplicaConformance, NamesTheParameterThatDiffers) {
  if (ranks() == 1) return;  // there is none to differ from
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = plain_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    replica->check_equal();
    if (trainee.rank == 1) {
      torch::NoGradGuard no_grad;
      model.second->bias[3] = std::nextafter(model.second->bias[3].item<float>(), 1e9f);
    }
    try {
      replica->check_equal();
      ADD_FAILURE() << "rank " << trainee.rank << " saw no difference";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), ::testing::HasSubstr("parameter 3, second.bias: rank 1"));
    }
  });
}

// Whatever models are between steps, after synchronize() there is one, and training goes on from
// it.
TEST_P(ReplicaConformance, SettlesToOneModel) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = momentum_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    replica->synchronize();  // nothing has happened yet
    replica->check_equal();
    for (int step = 0; step < 5; ++step) {
      const auto before = snapshot(model);
      optimizer->zero_grad();
      loss_of(model, part(Mlp::batch(step), trainee.rank, ranks())).backward();
      replica->step();
      if (step % 2 == 1) continue;
      replica->synchronize();
      replica->check_equal();
      EXPECT_GT(distance(snapshot(model), before), 1e-4);
    }
    const auto once = snapshot(model);
    replica->synchronize();
    EXPECT_LE(distance(snapshot(model), once), way().rounding) << "there was nothing new";
  });
}

TEST_P(ReplicaConformance, AveragesBuffers) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto mean = model.register_buffer("mean", torch::zeros({3, 2}));
    const auto count = model.register_buffer("count", torch::zeros({}, torch::kInt64));
    const auto flag = model.register_buffer("flag", torch::zeros({1}, torch::kBool));
    const auto optimizer = plain_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    mean.fill_(trainee.rank);
    count.fill_(10 + trainee.rank);
    flag.fill_(trainee.rank == 0);
    replica->average_buffers();
    EXPECT_TRUE(torch::allclose(mean, torch::full({3, 2}, (ranks() - 1) / 2.0)));
    EXPECT_EQ(count.item<std::int64_t>(), 10);
    EXPECT_TRUE(flag.item<bool>());
  });
}

// A test is of the mean of all models, and each rank then has its own again, also where it failed.
TEST_P(ReplicaConformance, TheMeanModelIsACopy) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto statistics = model.register_buffer("statistics", torch::zeros({3}));
    const auto optimizer = momentum_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    const double mean = (ranks() - 1) / 2.0;
    for (int step = 0; step < 5; ++step) {
      optimizer->zero_grad();
      loss_of(model, part(Mlp::batch(step), trainee.rank, ranks())).backward();
      replica->step();
      const bool differ = replica->models_differ();
      {
        torch::NoGradGuard no_grad;
        statistics.fill_(trainee.rank);
        if (differ) model.third->bias.fill_(trainee.rank);
      }
      const auto own = snapshot(model);
      const auto expect_own = [&] {
        for (std::size_t i = 0; i < own.size(); ++i)
          EXPECT_TRUE(torch::equal(model.parameters()[i], own[i]));
        EXPECT_TRUE(torch::equal(statistics, torch::full({3}, static_cast<float>(trainee.rank))));
      };
      replica->with_mean_model([&] {
        EXPECT_TRUE(torch::allclose(statistics, torch::full({3}, mean)));
        if (differ) {
          EXPECT_TRUE(torch::allclose(model.third->bias, torch::full({4}, mean)));
        }
        if (differ || way().equal_after_steps) replica->check_equal();
      });
      expect_own();
      EXPECT_THROW(replica->with_mean_model([] { throw std::runtime_error("a test failed"); }),
                   std::runtime_error);
      expect_own();
    }
  });
}

// What another way goes on from: one state for all, in each rank's optimizer.
TEST_P(ReplicaConformance, GathersTheOptimizersState) {
  Mlp alone;
  const auto lone = adam(alone);
  for (int step = 0; step < 4; ++step) {
    lone->zero_grad();
    loss_of(alone, Mlp::batch(step)).backward();
    lone->step();
  }
  std::vector<std::vector<torch::Tensor>> moments(static_cast<std::size_t>(ranks()));
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = adam(model);
    const auto replica = trainee.make(model, *optimizer);
    for (int step = 0; step < 4; ++step) {
      optimizer->zero_grad();
      loss_of(model, part(Mlp::batch(step), trainee.rank, ranks())).backward();
      replica->step();
    }
    replica->synchronize();
    replica->gather_optimizer_state();
    moments[static_cast<std::size_t>(trainee.rank)] = moments_of(model, *optimizer);
  });
  ASSERT_EQ(moments[0].size(), 3 * alone.parameters().size());
  for (const auto& of_rank : moments)
    for (std::size_t i = 0; i < moments[0].size(); ++i)
      EXPECT_TRUE(torch::equal(of_rank.at(i), moments[0][i]));
  if (way().follows_one_process) {
    EXPECT_LT(distance(moments[0], moments_of(alone, *lone)), 1e-5);
  }
}

}  // namespace asup::testing
