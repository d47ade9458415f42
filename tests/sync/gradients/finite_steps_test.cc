#include "asup/sync/gradients/finite_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <limits>

#include "asup/base/error.h"
#include "tests/support/thrown.h"
#include "tests/sync/conformance/trained_models.h"
#include "tests/sync/gradients/all_reduce_training.h"

namespace asup::testing {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A step on this rank's part, whose loss is multiplied with the factor.
template <typename Model>
StepResult step(Replica& replica, torch::optim::Optimizer& optimizer, Model& model,
                const Communicator& communicator, int seed, float factor, bool clips = false) {
  optimizer.zero_grad();
  const Batch batch = part(Model::batch(seed), communicator.rank(), communicator.size());
  (factor * loss_of(model, batch)).backward();
  if (clips) replica.clip_grad_norm(1000);
  return replica.step();
}

// What one rank alone has made infinite or NaN, all leave out, and what follows is as if it had not
// been: the optimizer's state too.
TEST(FiniteSteps, AllRanksLeaveOutWhatOneHasSpoiled) {
  Mlp alone;
  const auto lone = momentum_sgd(alone);
  for (const int seed : {0, 1, 4}) {
    lone->zero_grad();
    loss_of(alone, Mlp::batch(seed)).backward();
    lone->step();
  }
  for (const bool clips : {false, true})
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Mlp model;
      const auto optimizer = momentum_sgd(model);
      const auto replica = make_all_reduce_replica(
          communicator, model, *optimizer, {.bucket_bytes = 600, .first_bucket_bytes = 100});
      const auto take = [&](int seed, float factor) {
        return step(*replica, *optimizer, model, communicator, seed, factor, clips);
      };
      EXPECT_EQ(take(0, 1), StepResult::applied);
      EXPECT_EQ(take(1, 1), StepResult::applied);
      const auto before = snapshot(model);
      EXPECT_EQ(take(2, communicator.rank() == 1 ? kNaN : 1), StepResult::skipped);
      EXPECT_EQ(take(3, communicator.rank() == 0 ? kInfinity : 1), StepResult::skipped);
      const auto after = snapshot(model);
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(torch::equal(before[i], after[i]));
      EXPECT_EQ(replica->stats().skipped, 2u);
      EXPECT_EQ(replica->stats().skipped_in_succession, 2u);
      EXPECT_EQ(take(4, 1), StepResult::applied);
      EXPECT_EQ(replica->stats().skipped, 2u);
      EXPECT_EQ(replica->stats().skipped_in_succession, 0u);
      EXPECT_EQ(replica->stats().steps, 5u);
      replica->check_equal();
      EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
    });
}

// Ten in succession are too many, and more than half of the last hundred, of twenty at least.
TEST(FiniteSteps, TooManyAreCounted) {
  Mlp model;
  auto optimizer = sgd(model);
  const sync::TrainedModel trained(model, optimizer);
  const auto after = [&](int steps, auto is_finite) {
    sync::FiniteSteps finite(trained, NonFinite::skip, /*warns=*/false);
    for (int i = 0; i < steps; ++i) EXPECT_EQ(finite.count(1, is_finite(i)), is_finite(i));
    return sync::too_many_skipped({.steps = static_cast<std::uint64_t>(steps),
                                   .skipped = finite.skipped(),
                                   .skipped_in_succession = finite.in_succession(),
                                   .skipped_lately = finite.lately()});
  };
  const auto never = [](int) { return false; };
  EXPECT_EQ(after(9, never), std::nullopt);
  EXPECT_EQ(after(10, never), "10 steps in succession");
  const auto each_third = [](int i) { return i % 3 == 2; };
  EXPECT_EQ(after(19, each_third), std::nullopt);
  EXPECT_EQ(after(20, each_third), "14 of the last 20 steps");
  EXPECT_EQ(after(21, each_third), std::nullopt) << "the last one was not skipped";
  EXPECT_EQ(after(200, each_third), "67 of the last 100 steps");
  EXPECT_EQ(after(200, [](int i) { return i % 2 == 0; }), std::nullopt) << "no more than half";
  const auto later = [&](int i) { return i < 500 || each_third(i); };
  EXPECT_EQ(after(571, later), std::nullopt);
  EXPECT_EQ(after(578, later), "52 of the last 100 steps");
  const auto no_longer = [&](int i) { return i > 150 ? i % 4 > 0 : each_third(i); };
  EXPECT_NE(after(149, no_longer), std::nullopt);
  EXPECT_EQ(after(253, no_longer), std::nullopt);
}

// Where the exchange has told that they are finite, nobody reads gradients again: a GPU would be
// waited for once for each of them. Who reads this one ends the test.
TEST(FiniteSteps, WhatIsKnownIsNotLookedAt) {
  Mlp model;
  auto optimizer = sgd(model);
  const sync::TrainedModel trained(model, optimizer);
  torch::Tensor parameter = trained.trainable().front().tensor;
  void* unreadable =
      mmap(nullptr, parameter.nbytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(unreadable, MAP_FAILED);
  parameter.mutable_grad() = torch::from_blob(unreadable, parameter.sizes());
  for (const NonFinite policy : {NonFinite::skip, NonFinite::fatal, NonFinite::apply})
    EXPECT_TRUE(sync::FiniteSteps(trained, policy, /*warns=*/false).admits(1, /*finite=*/true));
  parameter.mutable_grad().reset();
  munmap(unreadable, parameter.nbytes());
}

struct Normalised : torch::nn::Module {
  Normalised()
      : in(register_module("in", torch::nn::Linear(8, 4))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4))) {
    fill(*this, 5);
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(in(x)); }
  static Batch batch(std::uint64_t seed) { return Mlp::batch(seed); }
  torch::nn::Linear in;
  torch::nn::BatchNorm1d norm;
};

// The samples themselves are no numbers on rank 1.
TEST(FiniteSteps, StatisticsStayWhatTheyWere) {
  for (const BufferSync buffers : {BufferSync::local, BufferSync::average})
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Normalised model;
      auto optimizer = sgd(model);
      const auto replica =
          make_all_reduce_replica(communicator, model, optimizer, {.buffers = buffers});
      const auto take = [&](int seed, float factor) {
        optimizer.zero_grad();
        const torch::Tensor x = factor * numbers({6, 8}, static_cast<std::uint64_t>(seed));
        torch::mse_loss(model.forward(x), torch::ones({6, 4})).backward();
        return replica->step();
      };
      take(0, 1);
      const auto mean = model.norm->running_mean.clone(),
                 variance = model.norm->running_var.clone();
      EXPECT_EQ(take(1, communicator.rank() == 1 ? kNaN : 1), StepResult::skipped);
      EXPECT_TRUE(model.norm->running_mean.isfinite().all().item<bool>());
      if (communicator.rank() == 1 || buffers == BufferSync::average) {
        EXPECT_TRUE(torch::equal(model.norm->running_mean, mean));
        EXPECT_TRUE(torch::equal(model.norm->running_var, variance));
      }
      EXPECT_EQ(take(2, 1), StepResult::applied);
      EXPECT_TRUE(model.norm->running_var.isfinite().all().item<bool>());
    });
}

TEST(FiniteSteps, TheyMayEndTheJobOrBeApplied) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto before = snapshot(model);
    const auto replica =
        make_all_reduce_replica(communicator, model, optimizer, {.non_finite = NonFinite::fatal});
    const float factor = communicator.rank() == 1 ? kNaN : 1;
    EXPECT_THAT(
        message_of<Error>([&] { step(*replica, optimizer, model, communicator, 0, factor); }),
        HasSubstr("the gradients of step 0 are infinite or NaN: those of first.weight"));
    EXPECT_EQ(distance(snapshot(model), before), 0);
  });
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica =
        make_all_reduce_replica(communicator, model, optimizer, {.non_finite = NonFinite::apply});
    const float factor = communicator.rank() == 1 ? kNaN : 1;
    EXPECT_EQ(step(*replica, optimizer, model, communicator, 0, factor), StepResult::applied);
    EXPECT_EQ(replica->stats().skipped, 0u);
    EXPECT_TRUE(snapshot(model).front().isnan().any().item<bool>());
  });
}

TEST(FiniteSteps, RanksThatDisagreeAboutThemAreRefused) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const NonFinite policy = communicator.rank() == 0 ? NonFinite::skip : NonFinite::apply;
    EXPECT_THAT(message_of<JobFailed>([&] {
                  make_all_reduce_replica(communicator, model, optimizer, {.non_finite = policy});
                }),
                HasSubstr("non_finite"));
  });
}

}  // namespace
}  // namespace asup::testing
