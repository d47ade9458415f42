// What DiLoCo promises beyond the conformance suite.
#include "asup/sync/averaging/diloco_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "asup/base/error.h"
#include "asup/sync/averaging/local_replica.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::distance;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::snapshot;
using testing::train_ranks;

torch::optim::AdamW adamw(torch::nn::Module& module) {
  return torch::optim::AdamW(module.parameters(), torch::optim::AdamWOptions(0.01));
}

void train(Replica& replica, torch::optim::Optimizer& optimizer, Mlp& model, int rank, int ranks,
           int begin, int end) {
  for (int step = begin; step < end; ++step) {
    optimizer.zero_grad();
    loss_of(model, part(Mlp::batch(step), rank, ranks)).backward();
    replica.step();
  }
}

// Sets a module's parameters, each to the values of one of `tensors`.
void set(torch::nn::Module& module, const std::vector<torch::Tensor>& tensors) {
  torch::NoGradGuard no_grad;
  auto parameters = module.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(tensors[i]);
}

// DiLoCo by hand, on one thread: inner AdamWs, and torch's own SGD with Nesterov's momentum on the
// mean difference.
std::vector<torch::Tensor> by_hand(int ranks, int every, int rounds) {
  Mlp shared;
  torch::optim::SGD outer(shared.parameters(),
                          torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(true));
  std::vector<std::unique_ptr<Mlp>> models;
  std::vector<std::unique_ptr<torch::optim::AdamW>> inner;
  for (int rank = 0; rank < ranks; ++rank) {
    models.push_back(std::make_unique<Mlp>());
    inner.push_back(std::make_unique<torch::optim::AdamW>(models.back()->parameters(),
                                                          torch::optim::AdamWOptions(0.01)));
  }
  for (int round = 0; round < rounds; ++round) {
    outer.zero_grad();
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      set(*models[r], snapshot(shared));
      for (int step = round * every; step < (round + 1) * every; ++step) {
        inner[r]->zero_grad();
        loss_of(*models[r], part(Mlp::batch(step), rank, ranks)).backward();
        inner[r]->step();
      }
      for (std::size_t i = 0; i < shared.parameters().size(); ++i) {
        auto& gradient = shared.parameters()[i].mutable_grad();
        const auto moved = (shared.parameters()[i] - models[r]->parameters()[i]).detach() / ranks;
        gradient = gradient.defined() ? gradient + moved : moved;
      }
    }
    outer.step();
  }
  return snapshot(shared);
}

TEST(DilocoReplica, IsNesterovOnTheMeanDifference) {
  for (const auto links : {LinkKind::shm, LinkKind::tcp}) {
    const auto expected = by_hand(3, 4, 3);
    train_ranks(3, links, [&](Communicator& communicator) {
      Mlp model;
      auto optimizer = adamw(model);
      const auto replica = make_diloco_replica(communicator, model, optimizer, {.every = 4});
      train(*replica, optimizer, model, communicator.rank(), 3, 0, 12);
      EXPECT_LT(distance(snapshot(model), expected), 1e-5);
      replica->check_equal();
      EXPECT_EQ(replica->stats().merges, 3u);
      EXPECT_TRUE(replica->keeps_own_optimizer());
    });
  }
}

// Learning rate 1 and no momentum: the mean of models, as in local SGD, and as far apart.
TEST(DilocoReplica, WithoutAnOuterOptimizerItIsLocalSgd) {
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) {
    Mlp averaged, moved;
    auto first = adamw(averaged), second = adamw(moved);
    const auto local =
        make_local_replica(communicator, averaged, first, {.every = 5, .state = MergeState::keep});
    train(*local, first, averaged, communicator.rank(), 3, 0, 15);
    const auto diloco = make_diloco_replica(communicator, moved, second,
                                            {.every = 5, .outer_lr = 1, .outer_momentum = 0});
    train(*diloco, second, moved, communicator.rank(), 3, 0, 15);
    EXPECT_LT(distance(snapshot(moved), snapshot(averaged)), 1e-5);
    EXPECT_NEAR(*diloco->stats().consensus_distance, *local->stats().consensus_distance, 1e-5);
  });
}

TEST(DilocoReplica, FragmentsAreExchangedByTurns) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = adamw(model);
    const auto replica =
        make_diloco_replica(communicator, model, optimizer, {.every = 6, .fragments = 3});
    std::vector<std::uint64_t> merges;
    for (int step = 0; step < 12; ++step) {
      train(*replica, optimizer, model, communicator.rank(), 2, step, step + 1);
      merges.push_back(replica->stats().merges);
    }
    EXPECT_THAT(merges, ::testing::ElementsAre(0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6));
    EXPECT_THROW(replica->check_equal(), JobFailed);
    replica->synchronize();
    replica->check_equal();
    EXPECT_EQ(replica->stats().merges, 8u) << "the last fragment was one already";
  });
}

// What is cut up is the same as a whole, where all of it is exchanged at once.
TEST(DilocoReplica, FragmentsThatSettleTogetherAreTheWhole) {
  train_ranks(2, LinkKind::shm, [](Communicator& communicator) {
    const auto trained = [&](std::int64_t fragments) {
      Mlp model;
      auto optimizer = adamw(model);
      const auto replica = make_diloco_replica(communicator, model, optimizer,
                                               {.every = 100, .fragments = fragments});
      for (const int begin : {0, 5, 10}) {
        train(*replica, optimizer, model, communicator.rank(), 2, begin, begin + 5);
        replica->synchronize();
      }
      return snapshot(model);
    };
    EXPECT_LT(distance(trained(7), trained(1)), 1e-6);
  });
}

// Without gradients models stand still, but for what the test does to them.
TEST(DilocoReplica, OverlappedItMeetsHalfway) {
  train_ranks(2, LinkKind::tcp, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = adamw(model);
    const auto replica =
        make_diloco_replica(communicator, model, optimizer,
                            {.every = 3, .outer_lr = 1, .outer_momentum = 0, .overlap = 2});
    const auto all = [&](double value) {
      torch::NoGradGuard no_grad;
      for (auto& parameter : model.parameters()) parameter.fill_(value);
    };
    const auto step_to = [&](double value) {
      all(value);
      replica->step();
      return model.first->bias[0].item<double>();
    };
    const double before = model.first->bias[0].item<double>();
    EXPECT_NE(before, 0);
    optimizer.zero_grad();
    replica->step();
    const double own = 1 + communicator.rank();
    EXPECT_EQ(step_to(own), own);
    EXPECT_EQ(step_to(own), own);            // leaves; the mean is 1.5
    EXPECT_EQ(step_to(10 * own), 10 * own);  // beside it
    EXPECT_NEAR(step_to(10 * own), (10 * own + 1.5) / 2, 1e-5);
    EXPECT_EQ(replica->stats().merges, 1u);
    replica->synchronize();
    EXPECT_NEAR(model.first->bias[0].item<double>(), (15 + 1.5) / 2, 1e-5);
    replica->check_equal();
  });
}

TEST(DilocoReplica, InBf16HalfTheBytesTravel) {
  std::array<std::uint64_t, 2> moved{};
  std::array<std::vector<torch::Tensor>, 2> models;
  for (const bool narrow : {false, true})
    train_ranks(2, LinkKind::tcp, [&](Communicator& communicator) {
      Mlp model(64);
      auto optimizer = adamw(model);
      const auto replica =
          make_diloco_replica(communicator, model, optimizer, {.every = 4, .in_bf16 = narrow});
      const auto before = replica->stats().bytes_moved;
      train(*replica, optimizer, model, communicator.rank(), 2, 0, 16);
      replica->check_equal();
      if (communicator.rank() != 0) return;
      moved[narrow] = replica->stats().bytes_moved - before;
      models[narrow] = snapshot(model);
    });
  EXPECT_NEAR(static_cast<double>(moved[1]), static_cast<double>(moved[0]) / 2,
              static_cast<double>(moved[0]) / 50);
  const double difference = distance(models[1], models[0]);
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.01);
}

// Of many steps, what int4 loses in each exchange does not add up.
TEST(DilocoReplica, InACodeFewerBytesTravel) {
  constexpr std::array kCodes{kernels::Code::none, kernels::Code::int8, kernels::Code::int4};
  std::array<double, 3> moved{};
  std::array<std::vector<torch::Tensor>, 3> models;
  for (std::size_t i = 0; i < kCodes.size(); ++i)
    train_ranks(2, LinkKind::tcp, [&](Communicator& communicator) {
      Mlp model(256);
      auto optimizer = adamw(model);
      const auto replica = make_diloco_replica(communicator, model, optimizer,
                                               {.every = 4, .fragments = 2, .code = kCodes[i]});
      const auto before = replica->stats().bytes_moved;
      train(*replica, optimizer, model, communicator.rank(), 2, 0, 40);
      const auto after = replica->stats().bytes_moved;
      replica->synchronize();
      replica->check_equal();
      if (communicator.rank() != 0) return;
      moved[i] = static_cast<double>(after - before);
      models[i] = snapshot(model);
    });
  EXPECT_GT(moved[0] / moved[1], 3.5);
  EXPECT_GT(moved[0] / moved[2], 6.5);
  for (const std::size_t code : {1, 2}) {
    EXPECT_GT(distance(models[code], models[0]), 0);
    EXPECT_LT(distance(models[code], models[0]), 0.05);
  }
}

// A few numbers travel, in two bits each; the others are kept, and come to the same in the end.
TEST(DilocoReplica, SparseFewBytesTravelAndTheRestLater) {
  std::array<std::uint64_t, 2> moved{};
  std::array<double, 2> losses{};
  for (const bool sparse : {false, true})
    train_ranks(2, LinkKind::tcp, [&](Communicator& communicator) {
      Mlp model(128);
      auto optimizer = adamw(model);
      const auto replica = make_diloco_replica(
          communicator, model, optimizer,
          {.every = 4, .outer_lr = 1, .outer_momentum = 0, .density = sparse ? 0.05 : 0});
      const auto before = replica->stats().bytes_moved;
      train(*replica, optimizer, model, communicator.rank(), 2, 0, 80);
      replica->check_equal();
      if (communicator.rank() != 0) return;
      moved[sparse] = replica->stats().bytes_moved - before;
      torch::NoGradGuard no_grad;
      losses[sparse] = loss_of(model, Mlp::batch(99)).item<double>();
    });
  EXPECT_GT(static_cast<double>(moved[0]), 20 * static_cast<double>(moved[1]));
  Mlp fresh(128);
  const double before = loss_of(fresh, Mlp::batch(99)).item<double>();
  EXPECT_LT(losses[1], losses[0] + 0.25 * (before - losses[0]));
}

// By the paper's equations: what is kept fades, what has travelled is taken from it.
TEST(DilocoReplica, SparseWhatIsKeptFades) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    struct Line : torch::nn::Module {
      Line() : weight(register_parameter("weight", torch::zeros({100}))) {}
      torch::Tensor weight;
    } model;
    torch::optim::SGD optimizer(model.parameters(), 1);
    const auto replica =
        make_diloco_replica(communicator, model, optimizer,
                            {.every = 1, .outer_lr = 1, .outer_momentum = 0, .density = 0.01});
    // One number travels in each exchange: of these, another each time.
    const torch::Tensor slope = torch::zeros({100});
    slope[7] = 3;
    slope[70] = 2;
    std::vector<double> kept{0, 0}, expected{0, 0};
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      (model.weight * slope).sum().backward();
      replica->step();
      for (std::size_t i : {0, 1}) kept[i] = 0.95 * kept[i] + (i == 0 ? 3 : 2);
      const std::size_t largest = kept[0] >= kept[1] ? 0 : 1;
      expected[largest] -= kept[largest];
      kept[largest] = 0;
      EXPECT_NEAR(model.weight[7].item<double>(), expected[0], 1e-4) << step;
      EXPECT_NEAR(model.weight[70].item<double>(), expected[1], 1e-4) << step;
    }
    EXPECT_LT(expected[1], -2);
  });
}

TEST(DilocoReplica, SparseItGoesOnToTheSameBits) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    for (const std::int64_t overlap : {0, 2}) {
      const DilocoOptions options{.every = 4, .overlap = overlap, .fragments = 2, .density = 0.1};
      const int rank = communicator.rank();
      Mlp whole, halved;
      auto first = adamw(whole), second = adamw(halved);
      const auto replica = make_diloco_replica(communicator, whole, first, options);
      train(*replica, first, whole, rank, 2, 0, 11);
      replica->synchronize();
      ReplicaState saved;
      for (const int begin : {0, 5}) {  // an exchange is under way, where it may be
        const auto own = snapshot(halved);
        const auto part_of_it = make_diloco_replica(communicator, halved, second, options);
        if (begin > 0) {
          set(halved, own);  // what all begin with is rank 0's
          part_of_it->restore(saved);
        }
        train(*part_of_it, second, halved, rank, 2, begin, begin == 0 ? 5 : 11);
        saved = part_of_it->state();
        for (auto* tensors : {&saved.common, &saved.own, &saved.parts})
          for (auto& tensor : *tensors) tensor.tensor = tensor.tensor.clone();
        if (begin > 0) part_of_it->synchronize();
      }
      EXPECT_EQ(distance(snapshot(halved), snapshot(whole)), 0) << overlap;
    }
  });
}

// A checkpoint has the parameters, the inner optimizers' state (here they are handed on) and this.
TEST(DilocoReplica, GoesOnWithItsMomentum) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const DilocoOptions options{.every = 4, .fragments = 2};
    const int rank = communicator.rank();
    Mlp whole, halved;
    auto first = adamw(whole), second = adamw(halved);
    const auto replica = make_diloco_replica(communicator, whole, first, options);
    train(*replica, first, whole, rank, 2, 0, 6);
    replica->synchronize();
    train(*replica, first, whole, rank, 2, 6, 12);
    replica->synchronize();

    ReplicaState saved;
    for (const int begin : {0, 6}) {
      const auto part_of_it = make_diloco_replica(communicator, halved, second, options);
      if (begin > 0) part_of_it->restore(saved);
      train(*part_of_it, second, halved, rank, 2, begin, begin + 6);
      part_of_it->synchronize();
      saved = part_of_it->state();
    }
    EXPECT_EQ(distance(snapshot(halved), snapshot(whole)), 0);
  });
}

// One leaves while an exchange is under way beside the others' steps.
TEST(DilocoReplica, ALostRankIsNamedWhenTheExchangeIsDue) {
  std::barrier all_made(3);  // what one of them finds out would end what others are in
  train_ranks(3, LinkKind::tcp, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = adamw(model);
    const auto replica =
        make_diloco_replica(communicator, model, optimizer, {.every = 4, .overlap = 2});
    all_made.arrive_and_wait();
    const int rank = communicator.rank();
    train(*replica, optimizer, model, rank, 3, 0, rank == 1 ? 3 : 5);
    if (rank == 1) return;  // leaves the job
    try {
      train(*replica, optimizer, model, rank, 3, 5, 6);
      ADD_FAILURE() << "rank " << rank << " went on without rank 1";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("exchanging models after step 6"));
      EXPECT_THAT(failure.what(), HasSubstr("rank 1"));
    }
  });
}

TEST(DilocoReplica, RefusesWhatCannotWork) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = adamw(model);
    for (const DilocoOptions& options :
         {DilocoOptions{.every = 0}, DilocoOptions{.every = 4, .fragments = 5},
          DilocoOptions{.every = 4, .overlap = 4}, DilocoOptions{.outer_lr = 0},
          DilocoOptions{.outer_momentum = 1}, DilocoOptions{.density = 2},
          DilocoOptions{.in_bf16 = true, .density = 0.1},
          DilocoOptions{.in_bf16 = true, .code = kernels::Code::int8}})
      EXPECT_THROW(make_diloco_replica(communicator, model, optimizer, options), BadInput);
  });
}

}  // namespace
}  // namespace asup
