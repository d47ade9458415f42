// Steps do what one process's do: with every rule, group, schedule and way to add gradients up.
#pragma once

#include <limits>

#include "tests/sync/conformance/replica_case.h"

namespace asup::testing {

TEST_P(ReplicaConformance, StepsWithSgd) { follow(plain_sgd, true); }
TEST_P(ReplicaConformance, StepsWithMomentumAndGradientsSetToZero) { follow(momentum_sgd, false); }
TEST_P(ReplicaConformance, StepsWithAdam) { follow(adam, true); }
TEST_P(ReplicaConformance, StepsWithTwoGroups) { follow(two_groups, true); }

// Group 0 warms up while group 1 falls: no factor is common to all groups.
class ApartSchedule : public torch::optim::LRScheduler {
 public:
  explicit ApartSchedule(torch::optim::Optimizer& optimizer) : LRScheduler(optimizer) {}

 private:
  std::vector<double> get_lrs() override {
    std::vector<double> rates = get_current_lrs();
    for (std::size_t i = 0; i < rates.size(); ++i) rates[i] *= i == 0 ? 1.2 : 0.7;
    return rates;
  }
};

TEST_P(ReplicaConformance, FollowsTorchsSchedules) {
  follow(two_groups, true, 8, [](torch::optim::Optimizer& optimizer) {
    return std::make_unique<torch::optim::StepLR>(optimizer, /*step_size=*/3, /*gamma=*/0.5);
  });
  follow(two_groups, true, 8, [](torch::optim::Optimizer& optimizer) {
    return std::make_unique<ApartSchedule>(optimizer);
  });
}

inline double length_of_move(const torch::nn::Module& model,
                             const std::vector<torch::Tensor>& from) {
  double sum = 0;
  for (std::size_t i = 0; i < from.size(); ++i)
    sum += (model.parameters()[i] - from[i]).square().sum().item<double>();
  return std::sqrt(sum);
}

// By the replica, and by torch, as in one process; where gradients have left by then, that is
// refused.
TEST_P(ReplicaConformance, ClipsGradients) {
  constexpr double kMost = 1e-3, kRate = 0.05;
  constexpr int kSteps = 3;
  const auto clip = [](Mlp& model) {
    torch::nn::utils::clip_grad_norm_(model.parameters(), kMost);
  };
  Mlp alone;
  const auto optimizer = plain_sgd(alone);
  for (int step = 0; step < kSteps; ++step) {
    optimizer->zero_grad();
    loss_of(alone, Mlp::batch(step)).backward();
    clip(alone);
    optimizer->step();
  }
  for (const bool by_torch : {false, true})
    run([&](const Trainee& trainee) {
      Mlp model;
      const auto before = snapshot(model);
      const auto mine = plain_sgd(model);
      const auto replica = trainee.make(model, *mine);
      try {
        for (int step = 0; step < kSteps; ++step) {
          mine->zero_grad();
          loss_of(model, part(Mlp::batch(step), trainee.rank, ranks())).backward();
          if (by_torch && !way().keeps_gradients) {
            EXPECT_THROW(clip(model), c10::Error);
            return;
          }
          if (by_torch)
            clip(model);
          else
            EXPECT_GT(replica->clip_grad_norm(kMost), 10 * kMost);
          replica->step();
        }
      } catch (const Error& error) {
        EXPECT_TRUE(by_torch);
        EXPECT_FALSE(way().averages_gradients);
        EXPECT_THAT(error.what(), ::testing::HasSubstr("clip_grad_norm()"));
        return;
      }
      EXPECT_LT(length_of_move(model, before), 2 * kSteps * kRate * kMost);
      if (way().equal_after_steps) replica->check_equal();
      if (way().averages_gradients) {
        EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
      }
    });
}

TEST_P(ReplicaConformance, RefusesANormThatIsNone) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = plain_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    loss_of(model, Mlp::batch(0)).backward();
    EXPECT_THROW(replica->clip_grad_norm(0), BadInput);
  });
}

TEST_P(ReplicaConformance, AccumulatesWithoutSync) {
  constexpr int kParts = 3;
  Mlp alone;
  const auto optimizer = momentum_sgd(alone);
  for (int step = 0; step < 4; ++step) {
    optimizer->zero_grad();
    for (int i = 0; i < kParts; ++i)
      (loss_of(alone, Mlp::batch(kParts * step + i)) / kParts).backward();
    optimizer->step();
  }
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto mine = momentum_sgd(model);
    const auto replica = trainee.make(model, *mine);
    for (int step = 0; step < 4; ++step) {
      mine->zero_grad();
      const auto backward = [&](int i) {
        const Batch batch = part(Mlp::batch(kParts * step + i), trainee.rank, ranks());
        (loss_of(model, batch) / kParts).backward();
      };
      {
        NoSync no_sync(*replica);
        for (int i = 0; i + 1 < kParts; ++i) backward(i);
      }
      backward(kParts - 1);
      replica->step();
    }
    if (way().equal_after_steps) replica->check_equal();
    expect_followed(model, alone);
  });
}

// Where gradients are infinite or NaN on all ranks, nothing of the step is left but its count.
TEST_P(ReplicaConformance, LeavesStepsOutWhoseGradientsAreNoNumbers) {
  const auto spoils = [](int step) { return step == 1 || step == 4; };
  Mlp alone;
  const auto optimizer = momentum_sgd(alone);
  for (int step = 0; step < 6; ++step) {
    if (spoils(step)) continue;
    optimizer->zero_grad();
    loss_of(alone, Mlp::batch(step)).backward();
    optimizer->step();
  }
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto mine = momentum_sgd(model);
    const auto replica = trainee.make(model, *mine);
    for (int step = 0; step < 6; ++step) {
      mine->zero_grad();
      const float factor = spoils(step) ? std::numeric_limits<float>::infinity() : 1;
      (factor * loss_of(model, part(Mlp::batch(step), trainee.rank, ranks()))).backward();
      replica->step();
    }
    EXPECT_EQ(replica->stats().steps, 6u);
    EXPECT_EQ(replica->stats().skipped, 2u);
    EXPECT_EQ(replica->stats().skipped_in_succession, 0u);
    if (way().equal_after_steps) replica->check_equal();
    expect_followed(model, alone);
    for (const torch::Tensor& parameter : snapshot(model))
      EXPECT_TRUE(parameter.isfinite().all().item<bool>());
  });
}

TEST_P(ReplicaConformance, NoStepWithoutSync) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = plain_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    NoSync no_sync(*replica);
    loss_of(model, Mlp::batch(0)).backward();
    EXPECT_THROW(replica->step(), Error);
  });
}

// A model whose memory links do not reach trains to the bits of one whose memory they do: with two
// backward passes in a step, gradients that are only added up, clipping, and a merge.
TEST_P(ReplicaConformance, CopiesChangeNoBit) {
  if (!GetParam().copies || !way().repeats) return;
  using Models = std::vector<std::vector<torch::Tensor>>;
  const auto train = [&](bool copies) {
    Models models(static_cast<std::size_t>(ranks()));
    torch::set_num_threads(1);
    const sync::ForcedCopies forced(copies);
    way().run(ranks(), GetParam().links, [&](const Trainee& trainee) {
      Mlp model;
      const auto optimizer = momentum_sgd(model);
      const auto replica = trainee.make(model, *optimizer);
      for (int step = 0; step < 6; ++step) {
        optimizer->zero_grad(step % 2 == 0);
        const auto backward = [&](int i) {
          loss_of(model, part(Mlp::batch(2 * step + i), trainee.rank, ranks())).backward();
        };
        {
          NoSync no_sync(*replica);
          backward(0);
        }
        backward(1);
        replica->clip_grad_norm(0.1);
        replica->step();
        if (step == 3) replica->synchronize();
      }
      models[static_cast<std::size_t>(trainee.rank)] = snapshot(model);
    });
    return models;
  };
  const Models plain = train(false), copied = train(true);
  for (std::size_t rank = 0; rank < plain.size(); ++rank)
    for (std::size_t i = 0; i < plain[rank].size(); ++i)
      EXPECT_TRUE(torch::equal(plain[rank][i], copied[rank][i])) << "rank " << rank;
}

TEST_P(ReplicaConformance, CountsWhatItDoes) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = plain_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    const auto before = replica->stats();
    EXPECT_EQ(before.steps, 0u);
    for (int step = 0; step < 3; ++step) {
      optimizer->zero_grad();
      loss_of(model, Mlp::batch(step)).backward();
      replica->step();
    }
    const auto after = replica->stats();
    EXPECT_EQ(after.steps, 3u);
    EXPECT_GE(after.exchange_seconds, 0);
    EXPECT_GE(after.wait_seconds, 0);
    if (ranks() > 1 && way().exchanges_every_step) {
      EXPECT_GT(after.exchange_seconds, before.exchange_seconds);
      EXPECT_GT(after.bytes_moved, before.bytes_moved);
    }
  });
}

}  // namespace asup::testing
