// Models of all kinds: parts that are frozen or that nobody used, and those that are refused.
#pragma once

#include "tests/sync/conformance/replica_case.h"

namespace asup::testing {

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
    const auto expect_refused = [&](Mlp& model, const std::string& words) {
      const auto optimizer = plain_sgd(model);
      try {
        trainee.make(model, *optimizer);
        ADD_FAILURE() << "rank " << trainee.rank << " accepted two devices";
      } catch (const BadInput& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
      }
    };
    Mlp parameter, buffer;
    parameter.register_parameter("elsewhere", torch::empty({2}, torch::kMeta), false);
    buffer.register_buffer("elsewhere", torch::empty({2}, torch::kMeta));
    expect_refused(parameter,
                   "parameter elsewhere is on meta, and parameter first.weight on cpu: move");
    expect_refused(buffer, "parameter first.weight is on cpu, and buffer elsewhere on meta: move");
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
      // Where it is cut among ranks, nobody has it any more.
      if (model.first->weight.grad().defined()) gradient = model.first->weight.grad().clone();
    }
    ASSERT_EQ(model.first->weight.grad().defined(), gradient.defined());
    if (gradient.defined()) {
      EXPECT_TRUE(torch::equal(model.first->weight.grad(), gradient));
    }
    const auto before = snapshot(model);
    loss_of(model, Mlp::batch(1)).backward();
    optimizer->step();
    ASSERT_TRUE(model.first->weight.grad().defined());
    if (gradient.defined()) {
      EXPECT_FALSE(torch::equal(model.first->weight.grad(), gradient));
    }
    EXPECT_GT(distance(snapshot(model), before), 0);
  });
}

}  // namespace asup::testing
