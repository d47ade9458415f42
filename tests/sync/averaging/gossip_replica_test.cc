// What synchronous gossip promises beyond the conformance suite.
#include "asup/sync/averaging/gossip_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "asup/base/error.h"
#include "asup/sync/averaging/consensus_estimator.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::fill;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::train_ranks;

torch::optim::SGD sgd(torch::nn::Module& module) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(0.05));
}

constexpr const char* kGraphs[] = {"ring", "exponential"};

// A model's parameters in one row of doubles.
torch::Tensor row_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> rows;
  for (const auto& parameter : module.parameters())
    rows.push_back(parameter.detach().flatten().to(torch::kFloat64));
  return torch::cat(rows);
}

// Ranks begin with models of their own, and never step: what they have after each round, by rank.
std::vector<std::vector<torch::Tensor>> gossiped(const char* graph, int ranks, int rounds,
                                                 LinkKind links,
                                                 kernels::Code code = kernels::Code::none) {
  std::vector<std::vector<torch::Tensor>> models(
      static_cast<std::size_t>(rounds) + 1,
      std::vector<torch::Tensor>(static_cast<std::size_t>(ranks)));
  train_ranks(ranks, links, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica =
        make_gossip_replica(communicator, model, optimizer, {.graph = graph, .code = code});
    fill(model, 10 + 100 * communicator.rank());
    const auto rank = static_cast<std::size_t>(communicator.rank());
    models[0][rank] = row_of(model);
    for (int round = 1; round <= rounds; ++round) {
      optimizer.zero_grad();
      replica->step();
      models[static_cast<std::size_t>(round)][rank] = row_of(model);
    }
  });
  return models;
}

torch::Tensor mean_of(const std::vector<torch::Tensor>& rows) { return torch::stack(rows).mean(0); }

double apart(const std::vector<torch::Tensor>& rows) {
  return (torch::stack(rows) - mean_of(rows)).norm().item<double>();
}

TEST(GossipReplica, KeepsTheMeanAndBringsModelsTogether) {
  for (const char* graph : kGraphs)
    for (const int ranks : {2, 3, 5}) {
      const auto models = gossiped(graph, ranks, 30, LinkKind::inproc);
      const auto mean = mean_of(models[0]);
      for (const auto& round : models)
        EXPECT_LT((mean_of(round) - mean).norm().item<double>(), 1e-6 * mean.norm().item<double>());
      EXPECT_LT(apart(models[30]), 1e-3 * apart(models[0])) << ranks << " ranks";
    }
}

TEST(GossipReplica, OnARingOfFourAThirdIsOnesOwn) {
  const auto models = gossiped("ring", 4, 1, LinkKind::shm);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto expected =
        (models[0][(rank + 3) % 4] + models[0][rank] + models[0][(rank + 1) % 4]) / 3;
    EXPECT_TRUE(torch::allclose(models[1][rank], expected, 1e-6, 1e-7));
  }
}

// One peer a round, 2^m ranks: after m rounds all have the mean.
TEST(GossipReplica, OnTheExponentialGraphFourAgreeAfterTwoRounds) {
  const auto models = gossiped("exponential", 4, 2, LinkKind::tcp);
  EXPECT_GT(apart(models[1]), 0.1);
  EXPECT_LT(apart(models[2]), 1e-6 * apart(models[0]));
}

// What a code loses of a difference is in the next one: models come together as without.
TEST(GossipReplica, InACodeTheMeanIsKeptAndModelsComeTogether) {
  for (const char* graph : kGraphs)
    for (const kernels::Code code :
         {kernels::Code::bf16, kernels::Code::int8, kernels::Code::int4}) {
      const auto models = gossiped(graph, 5, 40, LinkKind::inproc, code);
      const auto mean = mean_of(models[0]);
      for (const auto& round : models)
        EXPECT_LT((mean_of(round) - mean).norm().item<double>(), 2e-6 * mean.norm().item<double>());
      EXPECT_LT(apart(models[40]), 1e-3 * apart(models[0])) << graph << kernels::name_of(code);
    }
}

// The equations, a round after the other: what others know of a model moves by what a code says.
TEST(GossipReplica, InACodePublicCopiesTakeThePlaceOfModels) {
  const auto models = gossiped("ring", 4, 6, LinkKind::tcp, kernels::Code::int4);
  Mlp begin;
  const auto count = static_cast<std::size_t>(row_of(begin).numel());
  std::vector<torch::Tensor> copies;
  for (int rank = 0; rank < 4; ++rank) copies.push_back(row_of(begin).to(torch::kFloat32));
  for (std::size_t round = 0; round < 6; ++round) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      torch::Tensor difference = models[round][rank].to(torch::kFloat32) - copies[rank];
      std::vector<std::byte> code(kernels::coded_bytes(kernels::Code::int4, count));
      auto* numbers = difference.data_ptr<float>();
      kernels::encode(kernels::Code::int4, code.data(), numbers, count, {.decoded = numbers});
      copies[rank].add_(difference);
    }
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto expected =
          models[round][rank] +
          (copies[(rank + 3) % 4] + copies[(rank + 1) % 4] - 2 * copies[rank]) / 3;
      EXPECT_LT((models[round + 1][rank] - expected).abs().max().item<double>(), 1e-5) << round;
    }
  }
}

// Training, with a checkpoint in the middle: the same bits.
TEST(GossipReplica, InACodeGoesOnFromACheckpoint) {
  for (const char* graph : kGraphs)
    train_ranks(4, LinkKind::inproc, [&](Communicator& communicator) {
      const GossipOptions options{.graph = graph, .code = kernels::Code::int8};
      Mlp whole, second;
      auto first_optimizer = sgd(whole), second_optimizer = sgd(second);
      const auto first = make_gossip_replica(communicator, whole, first_optimizer, options);
      const auto step = [&](Mlp& model, torch::optim::SGD& optimizer, Replica& replica,
                            int number) {
        optimizer.zero_grad();
        loss_of(model, part(Mlp::batch(number), communicator.rank(), 4)).backward();
        replica.step();
      };
      for (int number = 0; number < 5; ++number) step(whole, first_optimizer, *first, number);
      ReplicaState saved = first->state();
      for (auto* tensors : {&saved.common, &saved.own})
        for (auto& tensor : *tensors) tensor.tensor = tensor.tensor.clone();
      const auto replica = make_gossip_replica(communicator, second, second_optimizer, options);
      {
        torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < whole.parameters().size(); ++i)
          second.parameters()[i].copy_(whole.parameters()[i]);
      }
      replica->restore(saved);
      for (int number = 5; number < 9; ++number) {
        step(whole, first_optimizer, *first, number);
        step(second, second_optimizer, *replica, number);
      }
      EXPECT_EQ(testing::distance(testing::snapshot(second), testing::snapshot(whole)), 0);
      first->synchronize();
      first->check_equal();
    });
}

TEST(GossipReplica, InACodeFewerBytesTravel) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    std::array<std::uint64_t, 2> bytes{};
    for (const bool coded : {false, true}) {
      Mlp model(64);
      auto optimizer = sgd(model);
      const auto replica =
          make_gossip_replica(communicator, model, optimizer,
                              {.code = coded ? kernels::Code::int4 : kernels::Code::none});
      const auto before = communicator.bytes_moved();
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        replica->step();
      }
      bytes[coded] = communicator.bytes_moved() - before;
    }
    EXPECT_GT(bytes[0], 6 * bytes[1]);
  });
}

TEST(GossipReplica, EverySecondStepIsOnesOwn) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_gossip_replica(communicator, model, optimizer, {.every = 2});
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      loss_of(model, part(Mlp::batch(step), communicator.rank(), 2)).backward();
      replica->step();
      EXPECT_EQ(replica->stats().merges, static_cast<std::uint64_t>(step + 1) / 2);
    }
    EXPECT_TRUE(replica->keeps_own_optimizer());
  });
}

TEST(GossipReplica, TheDistanceIsFound) {
  const auto models = gossiped("ring", 4, 0, LinkKind::inproc);
  const double expected =
      apart(models[0]) / std::sqrt(4) / mean_of(models[0]).norm().item<double>();
  train_ranks(4, LinkKind::inproc, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_gossip_replica(communicator, model, optimizer, {.every = 100});
    fill(model, 10 + 100 * communicator.rank());
    optimizer.zero_grad();
    replica->step();
    EXPECT_FALSE(replica->stats().consensus_distance);
    replica->synchronize();
    EXPECT_NEAR(*replica->stats().consensus_distance, expected, 1e-5 * expected);
    // Between two settles, too, without anybody having seen the mean.
    const auto gossip = make_gossip_replica(communicator, model, optimizer);
    for (int step = 0; step < 20; ++step) {
      fill(model, 10 + 100 * communicator.rank());
      gossip->step();
    }
    EXPECT_NEAR(*gossip->stats().consensus_distance, expected, 1e-5 * expected);
  });
}

TEST(ConsensusEstimator, LooksAtAFewElementsOfALargeModel) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    sync::ConsensusEstimator gauge(communicator, 1'000'000);
    EXPECT_FALSE(gauge.collect());
    const auto common = testing::numbers({1'000'000}, 1);
    const auto own = testing::numbers({1'000'000}, 2) * (communicator.rank() == 0 ? 0.01 : -0.01);
    const auto before = communicator.bytes_moved();
    gauge.start(common + own);
    const auto drift = gauge.collect();
    ASSERT_TRUE(drift);
    EXPECT_NEAR(std::sqrt(drift->squared / drift->mean_squared), 0.01, 0.001);
    EXPECT_LT(communicator.bytes_moved() - before, 200'000u);
  });
}

TEST(GossipReplica, ALostNeighbourIsNamed) {
  std::barrier all_stepped(3);  // what one of them finds out would end a step that others are in
  train_ranks(3, LinkKind::tcp, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_gossip_replica(communicator, model, optimizer);
    optimizer.zero_grad();
    replica->step();
    all_stepped.arrive_and_wait();
    if (communicator.rank() == 1) return;  // leaves the job
    try {
      replica->step();
      ADD_FAILURE() << "rank " << communicator.rank() << " went on without rank 1";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("exchanging models after step 2"));
      EXPECT_THAT(failure.what(), HasSubstr("rank 1"));
    }
  });
}

}  // namespace
}  // namespace asup
