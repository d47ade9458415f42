// Gradients that travel in a code, what is lost of them, and what a checkpoint keeps of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "asup/sync/gradients/gradient_exchange.h"
#include "tests/sync/gradients/all_reduce_training.h"
#include "tests/sync/watched_communicator.h"

namespace asup {
namespace {

using kernels::Code;
using net::LinkKind;
using testing::distance;
using ::testing::ElementsAre;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::snapshot;
using testing::train_ranks;

constexpr std::int64_t kWidth = 64;  // the second of the three weights is large enough for a code

AllReduceOptions in_code(Code code, bool feedback) {
  return {.bucket_bytes = 600, .first_bucket_bytes = 100, .code = code, .feedback = feedback};
}

struct Training {
  Training(Communicator& communicator, const AllReduceOptions& options)
      : communicator(communicator),
        model(kWidth),
        optimizer(testing::sgd(model)),
        replica(make_all_reduce_replica(communicator, model, optimizer, options)) {}

  void step(int number, float factor = 1) {
    optimizer.zero_grad();
    const auto batch = part(Mlp::batch(number), communicator.rank(), communicator.size());
    (factor * loss_of(model, batch)).backward();
    replica->step();
  }

  Communicator& communicator;
  Mlp model;
  torch::optim::SGD optimizer;
  std::unique_ptr<Replica> replica;
};

TEST(CodedGradients, WeightsTravelInCodeAndTheRestComesLast) {
  train_ranks(2, LinkKind::inproc, [](Communicator& real) {
    std::vector<std::string> calls;
    testing::WatchedCommunicator communicator(real, [&](const Call& call) {
      calls.push_back(
          fmt::format("{} in {}", call.output.count, kernels::name_of(call.coding.code)));
    });
    Mlp model(kWidth);
    sync::GradientExchange exchange(communicator, sync::parameters_of(model), layout::backwards(6),
                                    {.bucket_bytes = 1 << 20}, true, {Code::int8, false});
    loss_of(model, Mlp::batch(0)).backward();
    exchange.finish();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0], "4096 in int8");
    EXPECT_THAT(calls[1], ::testing::EndsWith(" in none"));
  });
}

TEST(CodedGradients, RanksStayEqualAndNearWhatTrainsWithoutACode) {
  for (const auto& [code, feedback, apart] :
       std::initializer_list<std::tuple<Code, bool, double>>{{Code::bf16, false, 1e-3},
                                                             {Code::f16, false, 1e-3},
                                                             {Code::int8, false, 2e-3},
                                                             {Code::int8, true, 1e-3},
                                                             {Code::int4, true, 0.02},
                                                             {Code::onebit, true, 0.1}}) {
    SCOPED_TRACE(fmt::format("{} {}", kernels::name_of(code), feedback));
    train_ranks(3, LinkKind::shm, [&](Communicator& communicator) {
      Training plain(communicator, in_code(Code::none, false));
      Training coded(communicator, in_code(code, feedback));
      for (int step = 0; step < 20; ++step) {
        plain.step(step);
        coded.step(step);
      }
      coded.replica->check_equal();
      const double found = distance(snapshot(coded.model), snapshot(plain.model));
      EXPECT_LT(found, apart);
      EXPECT_GT(found, 0);
    });
  }
}

TEST(CodedGradients, WhatIsRoundedAtRandomRepeatsItself) {
  std::vector<std::vector<torch::Tensor>> models(2);
  for (auto& trained : models)
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Training training(communicator, in_code(Code::int8, false));
      for (int step = 0; step < 5; ++step) training.step(step);
      if (communicator.rank() == 0) trained = snapshot(training.model);
    });
  EXPECT_EQ(distance(models[0], models[1]), 0);
}

// A step whose gradients are infinite is dropped, and what was lost before it is still carried.
TEST(CodedGradients, ASkippedStepLeavesWhatWasLostAsItWas) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training with(communicator, in_code(Code::onebit, true));
    Training without(communicator, in_code(Code::onebit, true));
    for (int step = 0; step < 4; ++step) {
      with.step(step);
      without.step(step);
      if (step == 1) with.step(17, std::numeric_limits<float>::infinity());
    }
    EXPECT_EQ(with.replica->stats().skipped, 1u);
    EXPECT_EQ(distance(snapshot(with.model), snapshot(without.model)), 0);
  });
}

// Of weights whose numbers fill no cache lines and no blocks, one of which some steps do not use.
struct Odd : torch::nn::Module {
  Odd() : first(options()), second(options()) {
    register_module("first", first);
    register_module("second", second);
    testing::fill(*this, 3);
  }
  static torch::nn::LinearOptions options() { return torch::nn::LinearOptions(33, 33).bias(false); }
  torch::Tensor loss(int step, bool whole = true) {
    const auto x = first(testing::numbers({4, 33}, static_cast<std::uint64_t>(step)));
    return (whole ? second(x) : x).square().mean();
  }
  torch::nn::Linear first, second;
};

TEST(CodedGradients, AnInfiniteStepIsTheOnlyOneThatIsSkipped) {
  for (const Code code : {Code::bf16, Code::f16, Code::int8, Code::int4, Code::onebit})
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Odd model;
      auto optimizer = testing::sgd(model);
      const auto replica =
          make_all_reduce_replica(communicator, model, optimizer, {.code = code, .feedback = true});
      for (int step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        const float factor = step == 2 ? std::numeric_limits<float>::infinity() : 1;
        (factor * model.loss(step)).backward();
        replica->step();
      }
      EXPECT_EQ(replica->stats().skipped, 1u) << kernels::name_of(code);
    });
}

TEST(CodedGradients, AParameterThatNobodyUsesKeepsWhatWasLost) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Odd model;
    sync::GradientExchange exchange(communicator, sync::parameters_of(model), layout::backwards(2),
                                    {}, true, {Code::onebit, true});
    const auto step = [&](bool whole) {
      model.zero_grad(/*set_to_none=*/true);
      model.loss(1, whole).backward();
      exchange.finish();
      exchange.next_step();
      std::map<std::string, torch::Tensor> lost;
      for (const auto& [name, tensor] : exchange.residuals()) lost[name] = tensor.clone();
      return lost;
    };
    const auto before = step(true), after = step(false);
    EXPECT_TRUE(torch::equal(before.at("second.weight"), after.at("second.weight")));
    EXPECT_FALSE(torch::equal(before.at("first.weight"), after.at("first.weight")));
    EXPECT_FALSE(model.second->weight.grad().defined());
  });
}

// What was lost of large batches is not a large batch's worth of a small one.
TEST(CodedGradients, WhatWasLostIsOfGradientsWhateverTheBatch) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Odd model;
    sync::GradientExchange exchange(communicator, sync::parameters_of(model), layout::backwards(2),
                                    {}, true, {Code::int4, true});
    const auto average = [&](std::uint64_t samples) {
      model.zero_grad();
      exchange.describe(samples);
      model.loss(1).backward();
      exchange.finish();
      exchange.next_step();
      return model.first->weight.grad().clone();
    };
    const auto first = average(128), second = average(1);
    EXPECT_LT((second - first).abs().max().item<float>(),
              first.abs().max().item<float>() / 2);  // of a seventh that is lost, not 128 of them
    EXPECT_EQ(exchange.residual_unit(), 1);
  });
}

TEST(CodedGradients, GoOnFromACheckpointToTheSameBits) {
  for (const auto& [code, feedback] :
       {std::pair(Code::int8, false), std::pair(Code::int4, true), std::pair(Code::onebit, true)})
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Training whole(communicator, in_code(code, feedback));
      for (int step = 0; step < 3; ++step) whole.step(step);
      ReplicaState saved = whole.replica->state();
      for (auto* tensors : {&saved.common, &saved.own, &saved.parts})
        for (auto& tensor : *tensors) tensor.tensor = tensor.tensor.clone();
      AllReduceOptions options = in_code(code, feedback);
      options.observed = whole.replica->observed();
      Training second(communicator, options);
      {
        torch::NoGradGuard no_grad;
        const auto from = snapshot(whole.model);
        for (std::size_t i = 0; i < from.size(); ++i) second.model.parameters()[i].copy_(from[i]);
      }
      second.replica->restore(saved);
      for (int step = 3; step < 6; ++step) {
        whole.step(step);
        second.step(step);
      }
      EXPECT_EQ(distance(snapshot(second.model), snapshot(whole.model)), 0)
          << kernels::name_of(code);
      EXPECT_EQ(saved.parts.size(), feedback ? 1u : 0u);
    });
}

// What two backward passes of a step lose is carried as one.
TEST(CodedGradients, TwoBackwardsOfAStepCarryOn) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Training coded(communicator, in_code(Code::int8, true));
    Training plain(communicator, in_code(Code::none, false));
    for (int step = 0; step < 10; ++step)
      for (Training* training : {&coded, &plain}) {
        training->optimizer.zero_grad();
        for (const int half : {0, 1})
          (0.5 *
           loss_of(training->model, part(Mlp::batch(2 * step + half), communicator.rank(), 2)))
              .backward();
        training->replica->step();
      }
    coded.replica->check_equal();
    EXPECT_LT(distance(snapshot(coded.model), snapshot(plain.model)), 1e-3);
  });
}

TEST(Residuals, MoveWithTheirParameters) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    const auto like = [](std::int64_t rows) { return torch::zeros({rows, 1024}); };
    const std::vector<sync::NamedTensor> parameters{{"a", like(1)}, {"b", like(2)}, {"c", like(1)}};
    const layout::BucketRules rules{.coded = {true, false, true}};
    const std::vector<std::size_t> forth{0, 1, 2}, back{2, 1, 0};
    const sync::Buckets one(communicator, parameters, forth, rules, 1);
    const sync::Buckets other(communicator, parameters, back, rules, 1);
    sync::Residuals residuals(one, parameters);
    for (int i = 0; i < 2048; ++i) residuals.lost(0)[i] = static_cast<float>(i / 1024 + 1);
    residuals.end_step(/*applied=*/true);
    residuals.move_to(other);
    std::map<std::string, float> values;
    for (const auto& [name, tensor] : residuals.tensors()) {
      EXPECT_TRUE(torch::all(tensor == tensor[0][0]).item<bool>());
      values[name] = tensor[0][0].item<float>();
    }
    EXPECT_THAT(values, ElementsAre(std::pair("a", 1), std::pair("c", 2)));
    EXPECT_EQ(residuals.carried(0)[0], 2);  // c comes first now
  });
}

}  // namespace
}  // namespace asup
