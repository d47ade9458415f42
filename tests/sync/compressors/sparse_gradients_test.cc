// Gradients of which only the largest numbers travel, against the papers' equations.
#include "asup/sync/compressors/sparse_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "asup/sync/compressors/sparse_payload.h"
#include "asup/sync/compressors/taken_momentum.h"
#include "tests/support/logged.h"
#include "tests/support/thrown.h"
#include "tests/sync/compressors/sparse_training.h"
#include "tests/sync/watched_communicator.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::distance;
using testing::Given;
using ::testing::HasSubstr;
using testing::message_of;
using testing::snapshot;
using testing::sparse;
using testing::train_ranks;
using torch::Tensor;
using torch::optim::SGD;
using torch::optim::SGDOptions;

using Training = testing::SparseTraining<Given>;

// Deep gradient compression of the weight as the paper has it, in one process.
struct ByThePaper {
  ByThePaper(int ranks, double density, double momentum, bool nesterov)
      : density(density), momentum(momentum), nesterov(nesterov) {
    u.assign(static_cast<std::size_t>(ranks), torch::zeros({2000}));
    v = u;
    weight = Given().weight.detach().flatten().clone();
  }
  void step(int number, double lr, double share) {
    const auto most = static_cast<std::int64_t>(std::ceil(share * 2000));
    Tensor sum = torch::zeros({2000});
    for (std::size_t rank = 0; rank < u.size(); ++rank) {
      const Tensor g = Given::gradient(number, static_cast<int>(rank)).flatten();
      u[rank] = nesterov ? momentum * (u[rank] + g) : momentum * u[rank] + g;
      v[rank] = v[rank] + (nesterov ? u[rank] + g : u[rank]);
      const Tensor chosen = std::get<1>(v[rank].abs().topk(most));
      sum.index_add_(0, chosen, testing::take(v[rank], chosen));
      u[rank].index_fill_(0, chosen, 0);
    }
    weight -= lr * sum / static_cast<double>(u.size());
  }
  std::vector<Tensor> u, v;
  Tensor weight;
  double density, momentum;
  bool nesterov;
};

TEST(SparseGradients, FollowThePaper) {
  for (const bool nesterov : {false, true})
    for (const std::uint64_t warmup : {0, 6})
      train_ranks(3, LinkKind::shm, [&](Communicator& communicator) {
        Training training(communicator, sparse(0.01, true, warmup),
                          SGDOptions(0.1).momentum(0.9).nesterov(nesterov));
        ByThePaper paper(3, 0.01, 0.9, nesterov);
        // A bias goes as it is, and the optimizer has its momentum.
        Given plain;
        SGD alone({plain.bias}, SGDOptions(0.1).momentum(0.9).nesterov(nesterov));
        for (int step = 0; step < 12; ++step) {
          training.step(step);
          paper.step(step, 0.1,
                     sync::density_in({.density = 0.01, .warmup = warmup},
                                      static_cast<std::uint64_t>(step)));
          ASSERT_LT(
              (training.model.weight.detach().flatten() - paper.weight).abs().max().item<float>(),
              2e-6)
              << "step " << step;
          plain.bias.mutable_grad() = torch::ones({50});
          alone.step();
          ASSERT_LT((training.model.bias - plain.bias).abs().max().item<float>(), 2e-6);
        }
        training.replica->check_equal();
      });
}

// Without a momentum, what has been applied and what is kept are all gradients together.
TEST(SparseGradients, LoseNothing) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training training(communicator, sparse(0.002, false), SGDOptions(1));
    const Tensor begin = training.model.weight.detach().clone();
    Tensor sum = torch::zeros({40, 50});
    for (int step = 0; step < 8; ++step) {
      training.step(step);
      sum += (Given::gradient(step, 0) + Given::gradient(step, 1)) / 2;
    }
    ASSERT_EQ(training.replica->state().parts.size(), 1u);
    EXPECT_LT((begin - training.model.weight.detach() + training.mean_kept() - sum)
                  .abs()
                  .max()
                  .item<float>(),
              1e-5);
  });
}

// Before another way of training: nothing waits any more then, and the optimizer's momentum is not
// added to one that is there.
TEST(SparseGradients, WhatWaitsCanBeApplied) {
  for (const bool takes_momentum : {false, true})
    train_ranks(3, LinkKind::inproc, [&](Communicator& communicator) {
      Training training(communicator, sparse(0.01, takes_momentum), SGDOptions(0.5).momentum(0.9));
      training.replica->apply_kept();  // nothing yet
      for (int step = 0; step < 5; ++step) training.step(step);
      const Tensor before = training.model.weight.detach().clone();
      const Tensor bias = training.model.bias.detach().clone();
      const Tensor kept = training.mean_kept();
      ASSERT_GT(kept.norm().item<float>(), 10);
      Tensor expected = before - 0.5 * kept;
      if (!takes_momentum) {
        using torch::optim::SGDParamState;
        const auto& state = static_cast<const SGDParamState&>(
            *training.optimizer.state().at(training.model.weight.unsafeGetTensorImpl()));
        expected = before - 0.5 * (0.9 * state.momentum_buffer() + kept);
      }
      training.replica->apply_kept();
      EXPECT_LT((training.model.weight.detach() - expected).abs().max().item<float>(), 1e-5);
      EXPECT_TRUE(torch::equal(training.model.bias.detach(), bias));
      training.replica->check_equal();
      for (const auto& part : training.replica->state().parts)
        EXPECT_EQ(part.tensor.abs().max().item<float>(), 0);
    });
}

// Also where each rank moves a part of the parameters: the same bits.
TEST(SparseGradients, WhatWaitsIsAppliedByShardsToo) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    AllReduceOptions by_shards = sparse(0.01, false);
    by_shards.shard = Shard::optimizer;
    Training whole(communicator, sparse(0.01, false), SGDOptions(0.5).momentum(0.9));
    Training shards(communicator, by_shards, SGDOptions(0.5).momentum(0.9));
    for (Training* training : {&whole, &shards}) {
      for (int step = 0; step < 5; ++step) training->step(step);
      training->replica->apply_kept();
    }
    EXPECT_EQ(distance(snapshot(shards.model), snapshot(whole.model)), 0);
  });
}

TEST(SparseGradients, TravelAsPayloadsOrByAllReduceWhicheverIsLess) {
  for (const auto& [density, how] : {std::pair(0.01, collective::Collective::all_gather),
                                     std::pair(0.5, collective::Collective::all_reduce)})
    train_ranks(5, LinkKind::inproc, [&](Communicator& real) {
      std::vector<Call> calls;
      testing::WatchedCommunicator communicator(real,
                                                [&](const Call& call) { calls.push_back(call); });
      Training training(communicator, sparse(density, false), SGDOptions(0.1));
      calls.clear();  // of how it was made
      training.step(0);
      ASSERT_FALSE(calls.empty());
      EXPECT_EQ(calls[0].collective, how);
      EXPECT_EQ(calls[0].input.count,
                density < 0.1 ? sync::payload_bytes(2000, 20, sync::SparseNumbers::bf16) : 2000);
      training.replica->check_equal();
    });
}

TEST(SparseGradients, ThatWouldBeMoreThanAllReduceAreSaid) {
  const auto said = [](double density) {
    return testing::logged([&] {
      train_ranks(5, LinkKind::inproc, [&](Communicator& communicator) {
        Training training(communicator, sparse(density, false), SGDOptions(0.1));
      });
    });
  };
  EXPECT_THAT(said(0.5), HasSubstr("compress topk saves no bytes: each of 5 workers"));
  EXPECT_THAT(said(0.5), HasSubstr("A density of 0.4"));
  EXPECT_EQ(said(0.4), "");
}

TEST(SparseGradients, ASkippedStepLeavesWhatIsKeptAsItWas) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training with(communicator, sparse(0.01, true, 4), SGDOptions(0.1).momentum(0.9));
    Training without(communicator, sparse(0.01, true, 4), SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 6; ++step) {
      with.step(step);
      without.step(step);
      // After the warm-up, whose exchanges count.
      if (step == 4) with.step(17, communicator.rank() == 1 ? NAN : 1);
    }
    EXPECT_EQ(with.replica->stats().skipped, 1u);
    EXPECT_EQ(distance(snapshot(with.model), snapshot(without.model)), 0);
  });
}

TEST(SparseGradients, GoOnFromACheckpointToTheSameBits) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const SGDOptions how = SGDOptions(0.1).momentum(0.9);
    Training whole(communicator, sparse(0.01, true, 6), how);
    for (int step = 0; step < 4; ++step) whole.step(step);
    const ReplicaState saved = whole.saved();
    EXPECT_EQ(saved.parts.size(), 2u);  // sums, and momenta
    Training second(communicator, sparse(0.01, true, 6), how);
    {
      torch::NoGradGuard no_grad;
      second.model.weight.copy_(whole.model.weight);
      second.model.bias.copy_(whole.model.bias);
    }
    using torch::optim::SGDParamState;
    const auto& of_bias = static_cast<const SGDParamState&>(
        *whole.optimizer.state().at(whole.model.bias.unsafeGetTensorImpl()));
    auto copied = std::make_unique<SGDParamState>();
    copied->momentum_buffer(of_bias.momentum_buffer().clone());
    second.optimizer.state()[second.model.bias.unsafeGetTensorImpl()] = std::move(copied);
    EXPECT_EQ(whole.optimizer.state().size(), 1u);  // the weight's momentum is not there
    second.replica->restore(saved);
    for (int step = 4; step < 9; ++step) {
      whole.step(step);
      second.step(step);
    }
    EXPECT_EQ(distance(snapshot(second.model), snapshot(whole.model)), 0);
  });
}

struct Large : torch::nn::Module {
  Large() : weight(register_parameter("weight", torch::zeros({1000, 1000}))) {}
  Tensor weight;
};

// Of a bucket that is too large to be looked at whole, a sample tells what is large.
TEST(SparseGradients, OfALargeBucketNearlyTheShareTravels) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Large model;
    SGD optimizer(model.parameters(), SGDOptions(1));
    const auto replica =
        make_all_reduce_replica(communicator, model, optimizer, sparse(0.01, false));
    const Tensor gradient = testing::numbers({1000, 1000}, 5);
    (model.weight * gradient).sum().backward();
    replica->step();
    const Tensor moved = model.weight.detach() != 0;
    const auto count = moved.sum().item<std::int64_t>();
    EXPECT_GT(count, 9'000);
    EXPECT_LE(count, 10'000);
    const float least = gradient.abs().masked_select(moved).min().item<float>();
    EXPECT_GT(least, 2.5);  // 1 % of these numbers are beyond 2.576
    EXPECT_TRUE(
        torch::equal(model.weight.masked_select(moved),
                     -gradient.masked_select(moved).to(torch::kBFloat16).to(torch::kFloat32)));
  });
}

// Here the sample sees none of the large numbers, of which there are too many.
TEST(SparseGradients, WhereTheSampleMisleadsAllAreLookedAt) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Large model;
    SGD optimizer(model.parameters(), SGDOptions(1));
    const auto replica =
        make_all_reduce_replica(communicator, model, optimizer, sparse(0.001, false));
    Tensor gradient = torch::full({1'000'000}, 1e-3F);
    for (std::int64_t run = 1; run < 62'500; run += 61)  // of the stride, and never the first
      gradient.slice(0, 16 * run, 16 * run + 16) = torch::linspace(1, 2, 16);
    gradient[999'999] = 3;
    (model.weight.view(-1) * gradient).sum().backward();
    replica->step();
    const Tensor moved = model.weight.detach().view(-1) != 0;
    EXPECT_LE(moved.sum().item<std::int64_t>(), 1000);
    EXPECT_GT(moved.sum().item<std::int64_t>(), 900);
    EXPECT_TRUE(moved[999'999].item<bool>());
    EXPECT_GE(gradient.masked_select(moved).min().item<float>(), 1.9);
  });
}

TEST(SparseGradients, TakeTheMomentumOfAnOptimizerThatHasOne) {
  Given model;
  const auto take = [&](const torch::optim::Optimizer& optimizer) {
    return sync::momentum_to_take(optimizer, "compress dgc");
  };
  SGD sgd(model.parameters(), SGDOptions(0.1).momentum(0.75).weight_decay(0.1).nesterov(true));
  EXPECT_EQ(take(sgd).momentum, 0.75);
  EXPECT_TRUE(take(sgd).nesterov);
  auto& options = static_cast<SGDOptions&>(sgd.param_groups()[0].options());
  {
    const sync::WithoutMomentum without(sgd);
    EXPECT_EQ(options.momentum(), 0);
    EXPECT_FALSE(options.nesterov());
    EXPECT_DOUBLE_EQ(options.weight_decay(), 0.4);
  }
  EXPECT_EQ(options.momentum(), 0.75);
  EXPECT_TRUE(options.nesterov());
  EXPECT_EQ(options.weight_decay(), 0.1);

  const torch::optim::Adam adam(model.parameters(), torch::optim::AdamOptions(0.1));
  EXPECT_THAT(message_of<BadInput>([&] { take(adam); }), HasSubstr("compress topk"));
  const SGD damped(model.parameters(), SGDOptions(0.1).momentum(0.5).dampening(0.1));
  EXPECT_THAT(message_of<BadInput>([&] { take(damped); }), HasSubstr("dampening"));
  const SGD endless(model.parameters(), SGDOptions(0.1).momentum(1));
  EXPECT_THAT(message_of<BadInput>([&] { take(endless); }), HasSubstr("below 1"));
  const SGD groups({torch::optim::OptimizerParamGroup({model.weight}),
                    torch::optim::OptimizerParamGroup(
                        {model.bias}, std::make_unique<SGDOptions>(SGDOptions(0.1).momentum(0.5)))},
                   SGDOptions(0.1).momentum(0.9));
  EXPECT_THAT(message_of<BadInput>([&] { take(groups); }),
              HasSubstr("compress dgc has one momentum for all parameters, and groups of the "
                        "optimizer have 0.9 and 0.5"));
}

// Of a tensor on each rank, by its samples where these are told; a bias is clipped as it comes.
TEST(SparseGradients, AreClippedBeforeTheyAreAddedUp) {
  for (const bool describes : {false, true})
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      constexpr double kNorm = 0.5;
      AllReduceOptions options;
      options.compressor = sync::dgc({.density = 0.5, .momentum = {}, .clip_norm = kNorm});
      options.clip_norm = kNorm;
      Training training(communicator, options, SGDOptions(1).momentum(0.5));
      const Tensor weight = training.model.weight.detach().clone();
      const Tensor bias = training.model.bias.detach().clone();
      // Few numbers, so that all travel: the same on both ranks, but for their size.
      Tensor gradient = torch::zeros({40, 50});
      gradient[3] = testing::numbers({50}, 4);
      if (describes) training.replica->describe_batch(3, 0);
      ((training.model.weight * gradient).sum() * (communicator.rank() == 0 ? 1 : 1e-3) +
       training.model.bias.sum())
          .backward();
      training.replica->step();
      const double norm = gradient.norm().item<double>();
      const Tensor expected = gradient * (kNorm * std::sqrt(2.0) / norm + 1e-3) / 2;
      const Tensor moved = weight - training.model.weight.detach();
      EXPECT_TRUE(torch::allclose(moved, expected, 1.0 / 256, 1e-6));  // as bf16 has it
      EXPECT_NEAR((bias - training.model.bias).norm().item<double>(), kNorm, 1e-6);
    });
}

TEST(SparseGradients, WhatTheMomentumForbidsIsSaid) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training training(communicator, sparse(0.01, true), SGDOptions(0.1).momentum(0.9));
    training.model.loss(0, 0).backward();
    EXPECT_FALSE(training.replica->clips_after_exchange());
    EXPECT_THAT(message_of<BadInput>([&] { training.replica->clip_grad_norm(1); }),
                HasSubstr("clip_norm"));
    EXPECT_THAT(message_of<BadInput>([&] { training.model.loss(1, 0).backward(); }),
                HasSubstr("NoSync"));
  });
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Training training(communicator, sparse(0.01, true), SGDOptions(0.1).momentum(0.9));
    training.step(0);
    static_cast<SGDOptions&>(training.optimizer.param_groups()[0].options()).momentum(0.5);
    EXPECT_THAT(message_of<Error>([&] { training.step(1); }), HasSubstr("momentum was changed"));
  });
}

}  // namespace
}  // namespace asup
