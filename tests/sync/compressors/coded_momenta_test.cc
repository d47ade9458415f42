// Momenta that travel in a code, against an SGD whose gradients travel as they are.
#include "asup/sync/compressors/coded_momenta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"
#include "tests/sync/compressors/sparse_training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::distance;
using testing::Given;
using testing::snapshot;
using testing::train_ranks;
using torch::optim::SGDOptions;
using Training = testing::SparseTraining<Given>;

constexpr double kRate = 0.1;

AllReduceOptions in_onebit(double clip_norm = 0) {
  return {.compressor = sync::coded_momenta({.clip_norm = clip_norm})};
}

// Where the plain one is, the other would be with what is kept.
void expect_nothing_is_lost(Training& coded, Training& plain) {
  torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::allclose(coded.model.weight - kRate * coded.mean_kept(), plain.model.weight,
                              1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(coded.model.bias, plain.model.bias, 1e-5, 1e-6));
  EXPECT_GT(distance({coded.model.weight}, {plain.model.weight}), 0.01);
}

TEST(CodedMomenta, LoseNothingOfWhatAMomentumMoves) {
  for (const bool nesterov : {false, true})
    for (const int ranks : {2, 3})
      train_ranks(ranks, LinkKind::shm, [&](Communicator& communicator) {
        const auto how = SGDOptions(kRate).momentum(0.9).nesterov(nesterov);
        Training coded(communicator, in_onebit(), how), plain(communicator, {}, how);
        for (int step = 0; step < 12; ++step) {
          coded.step(step);
          plain.step(step);
        }
        coded.replica->check_equal();
        expect_nothing_is_lost(coded, plain);
      });
}

TEST(CodedMomenta, HaveOneBackwardAStep) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training training(communicator, in_onebit(), SGDOptions(kRate).momentum(0.9));
    training.model.loss(0, communicator.rank()).backward();
    const auto second = [&] {
      training.model.loss(1, communicator.rank()).backward();
      training.replica->step();
    };
    EXPECT_THAT(testing::message_of<BadInput>(second),
                ::testing::HasSubstr("put all but the last into a NoSync scope"));
  });
}

TEST(CodedMomenta, ASkippedStepLeavesThemAsTheyWere) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const auto how = SGDOptions(kRate).momentum(0.9);
    Training with(communicator, in_onebit(), how), without(communicator, in_onebit(), how);
    for (int step = 0; step < 4; ++step) {
      with.step(step);
      without.step(step);
      if (step == 1) with.step(17, std::numeric_limits<float>::infinity());
    }
    EXPECT_EQ(with.replica->stats().skipped, 1u);
    EXPECT_EQ(distance(snapshot(with.model), snapshot(without.model)), 0);
  });
}

TEST(CodedMomenta, AreClippedAsGradients) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    const auto how = SGDOptions(kRate).momentum(0.9);
    Training clipped(communicator, in_onebit(0.5), how);
    const torch::Tensor before = clipped.model.weight.detach().clone();
    clipped.step(0);
    torch::NoGradGuard no_grad;
    const auto moved = before - clipped.model.weight + kRate * clipped.mean_kept();
    const double norm = (moved / kRate).norm().item<double>();
    EXPECT_LE(norm, 0.5 * std::sqrt(2) + 1e-3);
    EXPECT_GT(norm, 0.25);
    EXPECT_THAT(testing::message_of<BadInput>([&] { clipped.replica->clip_grad_norm(1); }),
                ::testing::HasSubstr("give AllReduce a clip_norm"));
  });
}

TEST(CodedMomenta, AreTakenWhereSgdHasAny) {
  const auto has = [](auto&& optimizer) { return sync::has_momentum_to_take(optimizer); };
  const std::vector<torch::Tensor> one{torch::zeros({1})};
  EXPECT_TRUE(has(torch::optim::SGD(one, SGDOptions(kRate).momentum(0.9))));
  EXPECT_FALSE(has(torch::optim::SGD(one, SGDOptions(kRate))));
  EXPECT_FALSE(has(torch::optim::SGD(one, SGDOptions(kRate).momentum(0.9).dampening(0.1))));
  EXPECT_FALSE(has(torch::optim::Adam(one)));
}

// By the name of what takes it, of one's own too.
TEST(CodedMomenta, ARefusalNamesWhatTakesTheMomentum) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Given model;
    torch::optim::Adam adam(model.parameters());
    const auto message = [&](const AllReduceOptions& options) {
      return testing::message_of<BadInput>(
          [&] { make_all_reduce_replica(communicator, model, adam, options); });
    };
    EXPECT_THAT(message(in_onebit()),
                ::testing::HasSubstr("compress onebit takes the momentum of SGD over"));
    const AllReduceOptions own{.compressor = [](const CompressorContext& context) {
      return std::make_unique<sync::CodedMomenta>(context.communicator, sync::MomentumCode{},
                                                  sync::TakenMomentum{.momentum = 0.5});
    }};
    EXPECT_THAT(message(own), ::testing::HasSubstr("compress as onebit of momenta"));
  });
}

}  // namespace
}  // namespace asup
