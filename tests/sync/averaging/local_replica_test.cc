// What local SGD promises beyond the conformance suite.
#include "asup/sync/averaging/local_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "asup/base/error.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::distance;
using testing::fill;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::snapshot;
using testing::train_ranks;

torch::optim::SGD sgd(torch::nn::Module& module, double momentum = 0) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(0.05).momentum(momentum));
}

void train(Replica& replica, torch::optim::Optimizer& optimizer, Mlp& model, int rank, int ranks,
           int begin, int end) {
  for (int step = begin; step < end; ++step) {
    optimizer.zero_grad();
    loss_of(model, part(Mlp::batch(step), rank, ranks)).backward();
    replica.step();
  }
}

// Sets every parameter to a number that tells the rank.
void set_all(torch::nn::Module& module, double value) {
  torch::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) parameter.fill_(value);
}

double first_of(const torch::nn::Module& module) {
  return module.parameters()[0].flatten()[0].item<double>();
}

// Ranks weigh differently, and all end with the same bits, near those of models that travel whole.
TEST(LocalReplica, InACodeDifferencesTravelInFewerBytes) {
  constexpr std::array kCodes{kernels::Code::none, kernels::Code::bf16, kernels::Code::int8,
                              kernels::Code::int4};
  std::array<double, kCodes.size()> moved{};
  std::array<std::vector<torch::Tensor>, kCodes.size()> models;
  for (std::size_t i = 0; i < kCodes.size(); ++i)
    train_ranks(3, LinkKind::tcp, [&](Communicator& communicator) {
      Mlp model(256);
      auto optimizer = sgd(model);
      const auto replica =
          make_local_replica(communicator, model, optimizer,
                             {.every = 4, .state = MergeState::keep, .code = kCodes[i]});
      std::uint64_t before = 0;
      for (int step = 0; step < 40; ++step) {
        if (step == 4) before = replica->stats().bytes_moved;  // the first merge is of whole models
        optimizer.zero_grad();
        const auto samples = static_cast<std::uint64_t>(4 + communicator.rank());
        const auto loss = loss_of(model, part(Mlp::batch(step), communicator.rank(), 3));
        loss.backward();
        replica->describe_batch(samples, loss.item<double>());
        replica->step();
      }
      replica->check_equal();
      if (communicator.rank() != 0) return;
      moved[i] = static_cast<double>(replica->stats().bytes_moved - before);
      models[i] = snapshot(model);
    });
  EXPECT_NEAR(moved[0] / moved[1], 2, 0.2);
  EXPECT_GT(moved[0] / moved[2], 3.5);
  EXPECT_GT(moved[0] / moved[3], 6.5);
  for (std::size_t i = 1; i < kCodes.size(); ++i) {
    EXPECT_GT(distance(models[i], models[0]), 0);
    EXPECT_LT(distance(models[i], models[0]), 0.05);
  }
}

// Workers that go on in a code from a run without one, with models of their own, have no past in
// common: they become one all the same.
TEST(LocalReplica, GoesOnInACodeFromARunWithoutOne) {
  for (const auto code : {kernels::Code::int8, kernels::Code::int4})
    train_ranks(3, LinkKind::tcp, [&](Communicator& communicator) {
      Mlp before, model;
      auto first = sgd(before), optimizer = sgd(model);
      const auto whole = make_local_replica(communicator, before, first, {.every = 4});
      train(*whole, first, before, communicator.rank(), 3, 0, 6);
      const auto replica =
          make_local_replica(communicator, model, optimizer, {.every = 4, .code = code});
      {
        torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < model.parameters().size(); ++i)
          model.parameters()[i].copy_(before.parameters()[i]);
      }
      ReplicaState state = replica->state();
      const ReplicaState known = whole->state();
      state.common[0] = known.common[0];
      state.own = known.own;
      replica->restore(state);
      train(*replica, optimizer, model, communicator.rank(), 3, 6, 16);
      replica->check_equal();
    });
}

// With plain SGD, and with momentum whatever becomes of it: the mean of models moves by the mean of
// momenta, wherever these are averaged.
TEST(LocalReplica, MergedAfterEveryStepItIsAllReduce) {
  for (const double momentum : {0.0, 0.9})
    for (const auto state : {MergeState::average, MergeState::keep})
      train_ranks(3, LinkKind::shm, [&](Communicator& communicator) {
        Mlp reduced, local;
        auto first = sgd(reduced, momentum), second = sgd(local, momentum);
        {
          const auto replica = make_all_reduce_replica(communicator, reduced, first);
          train(*replica, first, reduced, communicator.rank(), 3, 0, 20);
        }
        const auto replica =
            make_local_replica(communicator, local, second, {.every = 1, .state = state});
        train(*replica, second, local, communicator.rank(), 3, 0, 20);
        replica->check_equal();
        EXPECT_LT(distance(snapshot(local), snapshot(reduced)), 1e-6);
        EXPECT_EQ(replica->stats().merges, 20u);
      });
}

// By hand: each rank on its own for four steps, then the mean.
TEST(LocalReplica, AveragesModelsEveryFewSteps) {
  constexpr int kRanks = 3;
  std::vector<std::vector<torch::Tensor>> alone;
  for (int rank = 0; rank < kRanks; ++rank) {
    Mlp model;
    auto optimizer = sgd(model, 0.9);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      loss_of(model, part(Mlp::batch(step), rank, kRanks)).backward();
      optimizer.step();
    }
    alone.push_back(snapshot(model));
  }
  std::vector<torch::Tensor> mean;
  for (std::size_t i = 0; i < alone[0].size(); ++i)
    mean.push_back((alone[0][i] + alone[1][i] + alone[2][i]) / kRanks);
  double apart = 0;
  for (const auto& model : alone) apart += std::pow(distance(model, mean), 2) / kRanks;

  train_ranks(kRanks, LinkKind::tcp, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model, 0.9);
    const auto replica = make_local_replica(communicator, model, optimizer, {.every = 4});
    const int rank = communicator.rank();
    train(*replica, optimizer, model, rank, kRanks, 0, 3);
    EXPECT_EQ(replica->stats().merges, 0u);
    EXPECT_FALSE(replica->stats().consensus_distance);
    train(*replica, optimizer, model, rank, kRanks, 3, 4);
    EXPECT_LT(distance(snapshot(model), mean), 1e-6);
    replica->check_equal();
    EXPECT_EQ(replica->stats().merges, 1u);
    EXPECT_NEAR(*replica->stats().consensus_distance, std::sqrt(apart), 1e-6);
  });
}

TEST(LocalReplica, BytesAreThoseOfMerges) {
  const auto bytes = [](std::int64_t every) {
    std::uint64_t moved = 0;
    train_ranks(2, LinkKind::tcp, [&](Communicator& communicator) {
      Mlp model(64);
      auto optimizer = sgd(model);
      const auto replica = make_local_replica(communicator, model, optimizer, {.every = every});
      const std::uint64_t before = replica->stats().bytes_moved;
      train(*replica, optimizer, model, communicator.rank(), 2, 0, 16);
      if (communicator.rank() == 0) moved = replica->stats().bytes_moved - before;
    });
    return moved;
  };
  const std::uint64_t often = bytes(1), seldom = bytes(8);
  EXPECT_EQ(often, 8 * seldom);
}

TEST(LocalReplica, ModelsAreWeightedByTheirSamples) {
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_local_replica(communicator, model, optimizer, {.every = 2});
    set_all(model, communicator.rank());
    optimizer.zero_grad();  // a step without a gradient changes nothing
    replica->describe_batch(communicator.rank() == 2 ? 3 : 1, 0);
    replica->step();
    replica->describe_batch(communicator.rank() == 2 ? 0 : communicator.rank(), 0);
    replica->step();
    EXPECT_NEAR(first_of(model), (1 * 0 + 2 * 1 + 3 * 2) / 6.0, 1e-6);
    replica->check_equal();
  });
}

TEST(LocalReplica, ARankWithoutSamplesCountsForNothing) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_local_replica(communicator, model, optimizer, {.every = 1});
    set_all(model, 1 + communicator.rank());
    optimizer.zero_grad();
    replica->describe_batch(communicator.rank() == 0 ? 0 : 24, 0);
    replica->step();
    EXPECT_EQ(first_of(model), 2);
  });
}

// As a worker that is bound to a clock does: each takes the steps it can.
TEST(LocalReplica, MergesWhenAskedTo) {
  train_ranks(3, LinkKind::shm, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_local_replica(communicator, model, optimizer, {.every = 0});
    const int rank = communicator.rank();
    for (int round = 0; round < 2; ++round) {
      for (int step = 0; step < rank; ++step) {
        optimizer.zero_grad();
        replica->describe_batch(8, 1);
        replica->step();
      }
      set_all(model, rank);
      replica->synchronize();
      EXPECT_NEAR(first_of(model), (1 * 1 + 2 * 2) / 3.0, 1e-6);
      replica->check_equal();
    }
  });
}

TEST(LocalReplica, IsSynchronousFirstAndLocalLater) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica =
        make_local_replica(communicator, model, optimizer, {.every = 4, .local_after = 5});
    std::vector<std::uint64_t> merges;
    for (int step = 0; step < 14; ++step) {
      train(*replica, optimizer, model, communicator.rank(), 2, step, step + 1);
      merges.push_back(replica->stats().merges);
    }
    EXPECT_THAT(merges, ::testing::ElementsAre(1, 2, 3, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7));
  });
}

// Rank 0 sees large losses, rank 1 small ones: both take the same number of steps, which are chosen
// after every round, however short.
TEST(LocalReplica, AnAdaptiveIntervalIsAgreedOn) {
  const AdaptiveIntervalOptions often{.first_steps = 8, .seconds = Seconds(1e-9)};
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_local_replica(communicator, model, optimizer, {.adaptive = often});
    std::vector<int> merged_at;
    for (int step = 0; step < 18; ++step) {
      const double loss = communicator.rank() == 0 ? 8 : step < 8 ? 8 : 6;
      optimizer.zero_grad();
      loss_of(model, Mlp::batch(step)).backward();
      replica->describe_batch(4, 4 * loss);
      const auto before = replica->stats().merges;
      replica->step();
      if (replica->stats().merges > before) merged_at.push_back(step);
    }
    // 8 steps; 4, since the loss is as it was; 2, since 8 sqrt(7/8) is no less; 1.
    EXPECT_THAT(merged_at, ::testing::ElementsAre(7, 11, 13, 14, 15, 16, 17));
    EXPECT_THAT(replica->observed(), ::testing::StartsWith("every 1 8 0.05 0.05 "));
    const auto again = make_local_replica(communicator, model, optimizer,
                                          {.adaptive = often, .observed = replica->observed()});
    EXPECT_EQ(again->observed(), replica->observed());
  });
}

TEST(LocalReplica, AnAdaptiveIntervalWantsTheLoss) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica =
        make_local_replica(communicator, model, optimizer, {.adaptive = AdaptiveIntervalOptions{}});
    EXPECT_THROW(train(*replica, optimizer, model, 0, 1, 0, 16), Error);
  });
}

// The momentum of all parameters, as one number.
double momentum_in(const torch::optim::Optimizer& optimizer) {
  double sum = 0;
  for (const auto& [key, state] : optimizer.state())
    sum += static_cast<const torch::optim::SGDParamState&>(*state)
               .momentum_buffer()
               .norm()
               .item<double>();
  return sum;
}

TEST(LocalReplica, StateIsAveragedKeptOrReset) {
  for (const auto state : {MergeState::average, MergeState::keep, MergeState::reset}) {
    std::vector<double> momenta(2);
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Mlp model;
      auto optimizer = sgd(model, 0.9);
      const auto replica =
          make_local_replica(communicator, model, optimizer, {.every = 2, .state = state});
      train(*replica, optimizer, model, communicator.rank(), 2, 0, 2);
      EXPECT_EQ(replica->keeps_own_optimizer(), state == MergeState::keep);
      momenta[static_cast<std::size_t>(communicator.rank())] = momentum_in(optimizer);
    });
    EXPECT_EQ(momenta[0] == momenta[1], state != MergeState::keep);
    EXPECT_EQ(momenta[0] == 0, state == MergeState::reset);
  }
}

// One rank has no data in the first round: its Adam has nothing to average then.
TEST(LocalReplica, AStateThatOneRankLacksIsAveragedToo) {
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(0.01));
    const auto replica = make_local_replica(communicator, model, optimizer, {.every = 2});
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      if (communicator.rank() != 1 || step >= 2)
        loss_of(model, part(Mlp::batch(step), communicator.rank(), 3)).backward();
      replica->step();
    }
    replica->check_equal();
    for (const auto& [key, state] : optimizer.state())
      EXPECT_EQ(static_cast<const torch::optim::AdamParamState&>(*state).step(), 6);
    EXPECT_EQ(optimizer.state().size(), 6u);
  });
}

TEST(LocalReplica, DoublesAndHalvesAreAveraged) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model(16, torch::kFloat64);
    model.second->to(torch::kBFloat16);
    auto optimizer = sgd(model);
    const auto replica = make_local_replica(communicator, model, optimizer, {.every = 0});
    set_all(model, communicator.rank() == 0 ? 1 : 1 + 1e-12);
    {
      torch::NoGradGuard no_grad;
      model.second->weight.fill_(1 + communicator.rank());
    }
    optimizer.zero_grad();
    replica->step();
    replica->synchronize();
    EXPECT_NEAR(first_of(model), 1 + 5e-13, 1e-15);
    EXPECT_EQ(model.second->weight[0][0].item<double>(), 1.5);
    replica->check_equal();
  });
}

// A worker that loses the others in a merge still has the model that it stepped.
TEST(LocalReplica, ALostRankFailsTheMergeAndLeavesTheModel) {
  std::barrier all_stepped(3);  // what one of them finds out would end a merge that others are in
  train_ranks(3, LinkKind::tcp, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_local_replica(communicator, model, optimizer, {.every = 2});
    const int rank = communicator.rank();
    train(*replica, optimizer, model, rank, 3, 0, 3);
    all_stepped.arrive_and_wait();
    if (rank == 1) return;  // leaves the job
    Mlp expected;
    {
      torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < model.parameters().size(); ++i)
        expected.parameters()[i].copy_(model.parameters()[i]);
    }
    auto lone = sgd(expected);
    loss_of(expected, part(Mlp::batch(3), rank, 3)).backward();
    lone.step();
    try {
      train(*replica, optimizer, model, rank, 3, 3, 4);
      ADD_FAILURE() << "rank " << rank << " merged without rank 1";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("exchanging models after step 4"));
      EXPECT_THAT(failure.what(), HasSubstr("rank 1"));
    }
    EXPECT_EQ(distance(snapshot(model), snapshot(expected)), 0);
  });
}

TEST(LocalReplica, SettingsMustAgree) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    try {
      make_local_replica(communicator, model, optimizer, {.every = 4 + communicator.rank()});
      ADD_FAILURE() << "accepted other settings";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("every: 5 on rank 1, 4 on rank 0"));
    }
  });
}

}  // namespace
}  // namespace asup
