// What every Replica does, whichever way it keeps ranks in step. A replica joins with
//
//   INSTANTIATE_TEST_SUITE_P(AllReduce, ReplicaConformance, replica_cases(way), name_of_case);
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/sync/model/device.h"
#include "asup/sync/replica.h"
#include "tests/sync/conformance_models.h"
#include "tests/sync/training.h"

namespace asup::testing {

// One rank of a job, and how a replica is made there, once.
struct Trainee {
  int rank;
  std::function<std::unique_ptr<Replica>(torch::nn::Module&, torch::optim::Optimizer&)> make;
};

struct ReplicaWay {
  std::string name;
  // Calls `body` on each of so many ranks.
  std::function<void(int ranks, net::LinkKind links,
                     const std::function<void(const Trainee&)>& body)>
      run;
  bool equal_after_steps = true;    // all ranks have the same bits after every step
  bool follows_one_process = true;  // n ranks with parts of a batch do what one does with all of it
  bool skips_unused = true;         // what no rank used stays; else it has a gradient of zeros
  bool exchanges_every_step = true;
  bool averages_gradients = false;  // grad() is the average of all ranks when backward returns
  bool repeats = true;              // the same bits each time
  double rounding = 0;              // the mean of equal models may be off by so much, by their size
};

struct ReplicaCase {
  ReplicaWay way;
  net::LinkKind links;
  int ranks;
  bool copies = false;  // as if the model were on a GPU, whose memory links do not reach
};

inline std::vector<ReplicaCase> replica_cases(const ReplicaWay& way) {
  return {{way, net::LinkKind::inproc, 1},       {way, net::LinkKind::inproc, 2},
          {way, net::LinkKind::shm, 3},          {way, net::LinkKind::tcp, 4},
          {way, net::LinkKind::inproc, 2, true}, {way, net::LinkKind::shm, 3, true}};
}

inline std::string name_of_case(const ::testing::TestParamInfo<ReplicaCase>& info) {
  return info.param.way.name + "_" + name_of(info.param.links) + "_" +
         std::to_string(info.param.ranks) + (info.param.copies ? "_copies" : "");
}

class ReplicaConformance : public ::testing::TestWithParam<ReplicaCase> {
 protected:
  using Optimizers = std::function<std::unique_ptr<torch::optim::Optimizer>(torch::nn::Module&)>;

  int ranks() const { return GetParam().ranks; }
  const ReplicaWay& way() const { return GetParam().way; }
  void run(const std::function<void(const Trainee&)>& body) const {
    torch::set_num_threads(1);
    const sync::ForcedCopies forced(GetParam().copies);
    way().run(ranks(), GetParam().links, body);
  }

  void expect_followed(const torch::nn::Module& model, const torch::nn::Module& alone) const {
    if (!way().follows_one_process) return;
    EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
  }

  using Schedules =
      std::function<std::unique_ptr<torch::optim::LRScheduler>(torch::optim::Optimizer&)>;

  // Trains an Mlp on all ranks and, where promised, compares with one process.
  void follow(const Optimizers& optimizer_of, bool set_to_none, int steps = 8,
              const Schedules& schedule_of = nullptr) const {
    Mlp alone;
    const auto optimizer = optimizer_of(alone);
    const auto schedule = schedule_of ? schedule_of(*optimizer) : nullptr;
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad(set_to_none);
      loss_of(alone, Mlp::batch(step)).backward();
      optimizer->step();
      if (schedule) schedule->step();
    }
    run([&](const Trainee& trainee) {
      Mlp model;
      fill(model, 1 + 100 * trainee.rank);
      const auto mine = optimizer_of(model);
      const auto replica = trainee.make(model, *mine);
      const auto my_schedule = schedule_of ? schedule_of(*mine) : nullptr;
      for (int step = 0; step < steps; ++step) {
        mine->zero_grad(set_to_none);
        loss_of(model, part(Mlp::batch(step), trainee.rank, ranks())).backward();
        EXPECT_EQ(replica->step(), StepResult::applied);
        if (my_schedule) my_schedule->step();
      }
      if (way().equal_after_steps) replica->check_equal();
      expect_followed(model, alone);
    });
  }
};

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

TEST_P(ReplicaConformance, RefusesModelsThatDiffer) {
  if (ranks() == 1) return;  // there is none to differ from
  run([&](const Trainee& trainee) {
    Mlp model(trainee.rank == ranks() - 1 ? 20 : 16);
    const auto optimizer = plain_sgd(model);
    try {
      trainee.make(model, *optimizer);
      ADD_FAILURE() << "rank " << trainee.rank << " accepted another model";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(
          failure.what(),
          ::testing::HasSubstr(fmt::format(
              "parameter 0, first.weight: 20×8 f32 on rank {}, 16×8 f32 on rank 0", ranks() - 1)));
    }
  });
}

TEST_P(ReplicaConformance, RefusesAModelWithNothingToTrain) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = plain_sgd(model);
    for (auto& parameter : model.parameters()) parameter.set_requires_grad(false);
    EXPECT_THROW(trainee.make(model, *optimizer), BadInput);
  });
}

TEST_P(ReplicaConformance, RefusesAModelOnTwoDevices) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = plain_sgd(model);
    model.register_parameter("elsewhere", torch::empty({2}, torch::kMeta), false);
    try {
      trainee.make(model, *optimizer);
      ADD_FAILURE() << "rank " << trainee.rank << " accepted two devices";
    } catch (const BadInput& error) {
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr(
                      "parameter elsewhere is on meta, and parameter first.weight on cpu: move"));
    }
  });
}

TEST_P(ReplicaConformance, FrozenParametersStay) {
  run([&](const Trainee& trainee) {
    Mlp model;
    model.second->weight.set_requires_grad(false);
    const auto before = snapshot(model);
    const auto optimizer = momentum_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    for (int step = 0; step < 3; ++step) {
      optimizer->zero_grad();
      loss_of(model, part(Mlp::batch(step), trainee.rank, ranks())).backward();
      replica->step();
    }
    EXPECT_TRUE(torch::equal(model.second->weight, before[2]));
    EXPECT_FALSE(torch::equal(model.first->weight, before[0]));
    EXPECT_FALSE(torch::equal(model.second->bias, before[3]));
  });
}

// Ranks take different ways through the model: what one of them used moves everywhere, what none
// used moves nowhere, not even by weight decay; or, where a way promises less, as by zeros.
TEST_P(ReplicaConformance, UnusedParameters) {
  const auto goes_left = [](int rank, int step) { return (rank + step) % 3 == 0; };
  Forked alone;
  const auto untouched = alone.spare->weight.detach().clone();
  const auto optimizer = momentum_sgd(alone);
  for (int step = 0; step < 6; ++step) {
    optimizer->zero_grad();
    torch::Tensor loss = torch::zeros({});
    for (int rank = 0; rank < ranks(); ++rank)
      loss = loss + loss_of(alone, part(Mlp::batch(step), rank, ranks()), goes_left(rank, step));
    (loss / ranks()).backward();
    if (!way().skips_unused)
      for (auto& parameter : alone.parameters())
        if (!parameter.grad().defined()) parameter.mutable_grad() = torch::zeros_like(parameter);
    optimizer->step();
  }
  run([&](const Trainee& trainee) {
    Forked model;
    const auto mine = momentum_sgd(model);
    const auto replica = trainee.make(model, *mine);
    for (int step = 0; step < 6; ++step) {
      mine->zero_grad();
      const int rank = trainee.rank;
      loss_of(model, part(Mlp::batch(step), rank, ranks()), goes_left(rank, step)).backward();
      replica->step();
    }
    EXPECT_EQ(distance({model.spare->weight.detach()}, {untouched}) <= way().rounding,
              way().skips_unused);
    EXPECT_FALSE(model.spare->weight.grad().defined());
    if (way().equal_after_steps) replica->check_equal();
    expect_followed(model, alone);
  });
}

TEST_P(ReplicaConformance, ARankWithoutDataStillSteps) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto before = snapshot(model);
    const auto optimizer = plain_sgd(model);
    const auto replica = trainee.make(model, *optimizer);
    for (int step = 0; step < 3; ++step) {
      optimizer->zero_grad();
      if (trainee.rank == 0) loss_of(model, Mlp::batch(step)).backward();
      replica->step();
    }
    if (!way().equal_after_steps) replica->synchronize();  // models may not have met yet
    replica->check_equal();
    EXPECT_GT(distance(snapshot(model), before), 1e-4);
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

// Gradients, hooks and memory are given back: the model trains on alone.
TEST_P(ReplicaConformance, LeavesTheModelUsable) {
  run([&](const Trainee& trainee) {
    Mlp model;
    const auto optimizer = plain_sgd(model);
    torch::Tensor gradient;
    {
      const auto replica = trainee.make(model, *optimizer);
      loss_of(model, Mlp::batch(0)).backward();
      replica->step();
      gradient = model.first->weight.grad().clone();
    }
    EXPECT_TRUE(torch::equal(model.first->weight.grad(), gradient));
    loss_of(model, Mlp::batch(1)).backward();
    optimizer->step();
    EXPECT_FALSE(torch::equal(model.first->weight.grad(), gradient));
  });
}

}  // namespace asup::testing
