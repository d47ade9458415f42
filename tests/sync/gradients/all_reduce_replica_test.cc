// What the all-reduce replica promises beyond the conformance suite.
#include "asup/sync/gradients/all_reduce_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "asup/base/error.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::Batch;
using testing::Cnn;
using testing::distance;
using testing::fill;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::snapshot;
using testing::train_ranks;

torch::optim::SGD sgd(torch::nn::Module& module) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(0.05));
}

// One process with the whole batch.
template <typename Model>
std::vector<torch::Tensor> trained_alone(int steps) {
  Model model;
  auto optimizer = sgd(model);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss_of(model, Model::batch(step)).backward();
    optimizer.step();
  }
  return snapshot(model);
}

template <typename Model>
void train(Replica& replica, torch::optim::Optimizer& optimizer, Model& model,
           const Communicator& communicator, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    optimizer.zero_grad();
    loss_of(model, part(Model::batch(step), communicator.rank(), communicator.size())).backward();
    replica.step();
  }
}

struct Setting {
  LinkKind links;
  int ranks;
};

class FollowsOneProcess : public ::testing::TestWithParam<Setting> {
 protected:
  template <typename Model>
  void follow(const AllReduceOptions& options) {
    const auto expected = trained_alone<Model>(20);
    train_ranks(GetParam().ranks, GetParam().links, [&](Communicator& communicator) {
      Model model;
      auto optimizer = sgd(model);
      const auto replica = make_all_reduce_replica(communicator, model, optimizer, options);
      train(*replica, optimizer, model, communicator, 0, 20);
      EXPECT_LT(distance(snapshot(model), expected), 1e-6);
      replica->check_equal();
    });
  }
};

TEST_P(FollowsOneProcess, Mlp) { follow<Mlp>({}); }
TEST_P(FollowsOneProcess, MlpInSmallBuckets) {
  follow<Mlp>({.bucket_bytes = 300, .first_bucket_bytes = 100});
}
TEST_P(FollowsOneProcess, Cnn) { follow<Cnn>({.bucket_bytes = 1000, .first_bucket_bytes = 100}); }

// Parts need not be even: each rank weighs its loss by its samples.
TEST(AllReduceReplica, UnequalPartsFollowOneProcess) {
  const auto expected = trained_alone<Mlp>(20);
  train_ranks(3, LinkKind::inproc, [&](Communicator& communicator) {
    const std::int64_t begin = std::array{0, 17, 22}[communicator.rank()];
    const std::int64_t size = std::array{17, 5, 2}[communicator.rank()];
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    for (int step = 0; step < 20; ++step) {
      const Batch all = Mlp::batch(step);
      const Batch own{all.data.narrow(0, begin, size), all.target.narrow(0, begin, size)};
      optimizer.zero_grad();
      (loss_of(model, own) * (3 * static_cast<double>(size) / 24)).backward();
      replica->step();
    }
    EXPECT_LT(distance(snapshot(model), expected), 1e-6);
    replica->check_equal();
  });
}

// This rank's part of 17, 5, 2 or 0 samples.
Batch uneven_part(const Batch& all, int rank) {
  const std::int64_t begin = std::array{0, 17, 22, 24}[static_cast<std::size_t>(rank)];
  const std::int64_t size = std::array{17, 5, 2, 0}[static_cast<std::size_t>(rank)];
  return {all.data.narrow(0, begin, size), all.target.narrow(0, begin, size)};
}

// Or it says how many they are, and ranks are weighed by that; the last one has none.
TEST(AllReduceReplica, DescribedPartsFollowOneProcess) {
  const auto expected = trained_alone<Mlp>(20);
  for (const LinkKind links : {LinkKind::inproc, LinkKind::tcp})
    train_ranks(4, links, [&](Communicator& communicator) {
      Mlp model;
      auto optimizer = sgd(model);
      const auto replica = make_all_reduce_replica(
          communicator, model, optimizer, {.bucket_bytes = 300, .first_bucket_bytes = 100});
      for (int step = 0; step < 20; ++step) {
        const Batch own = uneven_part(Mlp::batch(step), communicator.rank());
        optimizer.zero_grad();
        replica->describe_batch(static_cast<std::uint64_t>(own.data.size(0)), 0);
        if (own.data.size(0) > 0) loss_of(model, own).backward();
        replica->step();
      }
      EXPECT_LT(distance(snapshot(model), expected), 1e-6);
      replica->check_equal();
    });
}

// Two backwards in a step, each averaged.
TEST(AllReduceReplica, DescribedPartsAddUp) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    const double rank = communicator.rank();
    torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    torch::optim::SGD optimizer(model->parameters(), 1.0);
    const auto replica = make_all_reduce_replica(communicator, *model, optimizer);
    replica->describe_batch(communicator.rank() == 0 ? 1 : 3, 0);
    for (int i = 0; i < 2; ++i) (model->weight.sum() * (1 + rank)).backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 2 * (1 * 1 + 3 * 2) / 4.0f);
    replica->step();
  });
}

// What a rank is told that takes steps as `step` does it.
template <typename Step>
std::vector<std::string> complaints(int ranks, const Step& step) {
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  train_ranks(ranks, LinkKind::tcp, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    try {
      for (int i = 0; i < 3; ++i) {
        optimizer.zero_grad();
        step(*replica, communicator.rank(), loss_of(model, Mlp::batch(i)));
        replica->step();
      }
    } catch (const BadInput& error) {
      messages[static_cast<std::size_t>(communicator.rank())] = error.what();
    }
  });
  return messages;
}

TEST(AllReduceReplica, AllRanksDescribeOrNone) {
  const auto messages = complaints(3, [](Replica& replica, int rank, const torch::Tensor& loss) {
    if (rank == 1) replica.describe_batch(8, 0);
    loss.backward();
  });
  EXPECT_THAT(messages, ::testing::Each(HasSubstr("some ranks described their batch and others "
                                                  "did not")));
}

TEST(AllReduceReplica, UnequalPartsAreToBeDescribedBeforeBackward) {
  const auto late = [](auto samples_of) {
    return complaints(2, [=](Replica& replica, int rank, const torch::Tensor& loss) {
      loss.backward();
      replica.describe_batch(samples_of(rank), 0);
    });
  };
  EXPECT_THAT(
      late([](int rank) { return rank == 0 ? 8u : 6u; }),
      ::testing::Each(HasSubstr("had 6 to 8 samples, and were described after backward()")));
  EXPECT_THAT(late([](int) { return 8u; }), ::testing::Each(""));
  const auto mixed = complaints(2, [](Replica& replica, int rank, const torch::Tensor& loss) {
    if (rank == 0) replica.describe_batch(8, 0);
    loss.backward();
    if (rank == 1) replica.describe_batch(8, 0);
  });
  EXPECT_NE(mixed[0], "");
  EXPECT_NE(mixed[1], "");
}

std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const auto links : {LinkKind::inproc, LinkKind::shm, LinkKind::tcp})
    for (const int ranks : {1, 2, 3, 4}) result.push_back({links, ranks});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Links, FollowsOneProcess, ::testing::ValuesIn(settings()),
                         [](const auto& info) {
                           return testing::name_of(info.param.links) + "_" +
                                  std::to_string(info.param.ranks);
                         });

TEST(AllReduceReplica, DoublesFollowToTheLastDigits) {
  constexpr auto kType = torch::kFloat64;
  Mlp alone(16, kType);
  auto lone = sgd(alone);
  for (int step = 0; step < 10; ++step) {
    lone.zero_grad();
    loss_of(alone, Mlp::batch(step, 24, kType)).backward();
    lone.step();
  }
  train_ranks(3, LinkKind::shm, [&](Communicator& communicator) {
    Mlp model(16, kType);
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      loss_of(model, part(Mlp::batch(step, 24, kType), communicator.rank(), 3)).backward();
      replica->step();
    }
    EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-14);
  });
}

// Layers of 16-bit and 32-bit floats in one model.
TEST(AllReduceReplica, MixedTypesStayEqual) {
  train_ranks(3, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    model.second->to(torch::kBFloat16);
    fill(model, 10 * communicator.rank());
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const Batch batch = part(Mlp::batch(step), communicator.rank(), 3);
      const auto hidden = torch::tanh(model.first(batch.data)).to(torch::kBFloat16);
      const auto output = model.third(torch::tanh(model.second(hidden)).to(torch::kFloat32));
      torch::mse_loss(output, batch.target).backward();
      replica->step();
    }
    EXPECT_EQ(model.second->weight.grad().scalar_type(), torch::kBFloat16);
    replica->check_equal();
  });
}

// One weight under two names, and one module used twice.
struct Tied : torch::nn::Module {
  Tied() : layer(register_module("layer", torch::nn::Linear(8, 8))) {
    fill(*this, 4);
    again = register_parameter("again", layer->weight);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::matmul(torch::tanh(layer(torch::tanh(layer(x)))), again);
  }
  static Batch batch(std::uint64_t seed) {
    return {testing::numbers({24, 8}, seed), testing::numbers({24, 8}, seed + 50)};
  }
  torch::nn::Linear layer;
  torch::Tensor again;
};

// Each parameter once, whatever its names.
std::vector<torch::Tensor> once(const torch::nn::Module& module) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : module.parameters())
    if (std::none_of(result.begin(), result.end(),
                     [&](const torch::Tensor& other) { return other.is_same(parameter); }))
      result.push_back(parameter);
  return result;
}

TEST(AllReduceReplica, SharedParametersAreAveragedOnce) {
  const auto train_tied = [](int rank, int ranks, Communicator* communicator) {
    Tied model;
    torch::optim::SGD optimizer(once(model), torch::optim::SGDOptions(0.05));
    std::unique_ptr<Replica> replica;
    if (communicator) replica = make_all_reduce_replica(*communicator, model, optimizer);
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      loss_of(model, part(Tied::batch(step), rank, ranks)).backward();
      replica ? void(replica->step()) : void(optimizer.step());
    }
    return snapshot(model);
  };
  const auto expected = train_tied(0, 1, nullptr);
  ASSERT_EQ(expected.size(), 3u);
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    EXPECT_LT(distance(train_tied(communicator.rank(), 2, &communicator), expected), 1e-6);
  });
}

TEST(AllReduceReplica, GradientsAreFinalWhenBackwardReturns) {
  Mlp alone;
  loss_of(alone, Mlp::batch(0)).backward();
  train_ranks(2, LinkKind::tcp, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    loss_of(model, part(Mlp::batch(0), communicator.rank(), 2)).backward();
    std::vector<torch::Tensor> averages, expected;
    for (const auto& parameter : model.parameters()) averages.push_back(parameter.grad().clone());
    for (const auto& parameter : alone.parameters()) expected.push_back(parameter.grad());
    EXPECT_LT(distance(averages, expected), 1e-6);
    const auto moved = replica->stats().bytes_moved;
    replica->finish_exchange();
    EXPECT_EQ(replica->stats().bytes_moved, moved);
    replica->step();
  });
}

// A hook of the program's own ends a backward; the next one is exchanged as ever.
TEST(AllReduceReplica, ABackwardThatFailsBeforeAnyGradientIsForgotten) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    bool fails = true;
    const auto output = [&](int seed) {
      auto loss = loss_of(model, part(Mlp::batch(seed), communicator.rank(), 2));
      loss.register_hook([&](const torch::Tensor&) {
        if (fails) throw Error("not now");
      });
      return loss;
    };
    EXPECT_THROW(output(0).backward(), Error);
    fails = false;
    output(1).backward();
    replica->step();
    replica->check_equal();
  });
}

TEST(AllReduceReplica, ClippingBetweenBackwardAndStep) {
  const auto clip = [](Mlp& model) { torch::nn::utils::clip_grad_norm_(model.parameters(), 0.05); };
  Mlp alone;
  auto lone = sgd(alone);
  for (int step = 0; step < 5; ++step) {
    lone.zero_grad();
    loss_of(alone, Mlp::batch(step)).backward();
    clip(alone);
    lone.step();
  }
  train_ranks(2, LinkKind::shm, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      loss_of(model, part(Mlp::batch(step), communicator.rank(), 2)).backward();
      clip(model);
      replica->step();
    }
    EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
  });
}

// Like torch, gradients that nobody clears add up.
TEST(AllReduceReplica, WithoutZeroGradGradientsAddUp) {
  Mlp alone;
  auto lone = sgd(alone);
  for (int step = 0; step < 5; ++step) {
    loss_of(alone, Mlp::batch(step)).backward();
    lone.step();
  }
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    for (int step = 0; step < 5; ++step) {
      loss_of(model, part(Mlp::batch(step), communicator.rank(), 2)).backward();
      replica->step();
    }
    EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
  });
}

// Registered in the order of use reversed, so that the first guess of the order is wrong.
struct Reversed : torch::nn::Module {
  Reversed()
      : last(register_module("last", torch::nn::Linear(16, 4))),
        middle(register_module("middle", torch::nn::Linear(16, 16))),
        first(register_module("first", torch::nn::Linear(8, 16))) {
    fill(*this, 6);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return last(torch::tanh(middle(torch::tanh(first(x)))));
  }
  static Batch batch(std::uint64_t seed) { return Mlp::batch(seed); }
  torch::nn::Linear last, middle, first;
};

// Over TCP with three ranks, where the order of a sum depends on the place in its bucket.
TEST(AllReduceReplica, AResumedRunRepeatsTheBitsOfOneThatWasNot) {
  const AllReduceOptions sizes{.bucket_bytes = 700, .first_bucket_bytes = 100};
  train_ranks(3, LinkKind::tcp, [&](Communicator& communicator) {
    Reversed whole, halved;
    auto optimizer = sgd(whole);
    const auto replica = make_all_reduce_replica(communicator, whole, optimizer, sizes);
    EXPECT_EQ(replica->observed(), "");
    train(*replica, optimizer, whole, communicator, 0, 8);
    EXPECT_EQ(replica->observed(), "order 1 0 3 2 5 4");

    std::string observed;
    for (const int begin : {0, 4}) {
      auto fresh = sgd(halved);
      auto options = sizes;
      options.observed = observed;
      const auto resumed = make_all_reduce_replica(communicator, halved, fresh, options);
      train(*resumed, fresh, halved, communicator, begin, begin + 4);
      observed = resumed->observed();
    }
    EXPECT_EQ(distance(snapshot(halved), snapshot(whole)), 0);
  });
}

TEST(AllReduceReplica, RefusesAnOrderOfAnotherModel) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    for (const std::string observed :
         {"order 1 0", "order 0 1 2 3 4 4", "order 0 1 2 3 4 x", "5 4"})
      EXPECT_THROW(make_all_reduce_replica(communicator, model, optimizer, {.observed = observed}),
                   BadInput)
          << observed;
  });
}

TEST(AllReduceReplica, SettingsMustAgree) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    AllReduceOptions options;
    options.bucket_bytes = communicator.rank() == 0 ? 1000 : 2000;
    try {
      make_all_reduce_replica(communicator, model, optimizer, options);
      ADD_FAILURE() << "accepted other settings";
    } catch (const JobFailed& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("bucket_bytes: 2000 on rank 1, 1000 on rank 0"));
    }
  });
}

void expect_buffers(BufferSync way, const std::vector<double>& expected) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    Mlp model;
    const auto statistic = model.register_buffer("statistic", torch::zeros({2}));
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer, {.buffers = way});
    statistic.fill_(communicator.rank() + 1);
    loss_of(model, Mlp::batch(0)).backward();
    replica->step();
    const auto rank = static_cast<std::size_t>(communicator.rank());
    EXPECT_TRUE(torch::equal(statistic, torch::full({2}, expected[rank])));
  });
}

TEST(AllReduceReplica, BuffersStayLocal) { expect_buffers(BufferSync::local, {1, 2}); }
TEST(AllReduceReplica, BuffersBecomeRankZeros) { expect_buffers(BufferSync::broadcast, {1, 1}); }
TEST(AllReduceReplica, BuffersAreAveraged) { expect_buffers(BufferSync::average, {1.5, 1.5}); }

// Rank 1 leaves the job in the middle of backward.
TEST(AllReduceReplica, ALostRankFailsTheStepAndLeavesTheWeights) {
  for (const auto links : {LinkKind::inproc, LinkKind::shm, LinkKind::tcp})
    train_ranks(3, links, [](Communicator& communicator) {
      Mlp model;
      auto optimizer = sgd(model);
      const auto replica = make_all_reduce_replica(
          communicator, model, optimizer, {.bucket_bytes = 300, .first_bucket_bytes = 100});
      train(*replica, optimizer, model, communicator, 0, 2);
      optimizer.zero_grad();
      const auto before = snapshot(model);
      if (communicator.rank() == 1) {
        model.second->weight.register_hook([](const torch::Tensor&) { throw Error("gone"); });
        EXPECT_THROW(loss_of(model, Mlp::batch(2)).backward(), Error);
        return;
      }
      try {
        loss_of(model, Mlp::batch(2)).backward();
        ADD_FAILURE() << "rank " << communicator.rank() << " averaged without rank 1";
      } catch (const JobFailed& failure) {
        EXPECT_THAT(failure.what(), HasSubstr("gradients of step 2"));
        EXPECT_THAT(failure.what(), HasSubstr("rank 1"));
      }
      EXPECT_EQ(distance(snapshot(model), before), 0);
      EXPECT_THROW(replica->step(), JobFailed);
    });
}

template <typename Prepare>
void expect_refused(const Prepare& prepare, const char* message) {
  train_ranks(1, LinkKind::inproc, [&](Communicator& communicator) {
    Mlp model;
    try {
      const std::unique_ptr<torch::optim::Optimizer> optimizer = prepare(model);
      make_all_reduce_replica(communicator, model, *optimizer);
      ADD_FAILURE() << "accepted what it should not";
    } catch (const BadInput& refusal) {
      EXPECT_THAT(refusal.what(), HasSubstr(message));
    }
  });
}

TEST(AllReduceReplica, RefusesComplexParameters) {
  expect_refused(
      [](Mlp& model) {
        model.register_parameter("phase", torch::zeros({2}, torch::kComplexFloat));
        return std::make_unique<torch::optim::SGD>(model.parameters(), 0.1);
      },
      "parameter phase is 2 ComplexFloat");
}

TEST(AllReduceReplica, RefusesAnOptimizerOfOtherParameters) {
  expect_refused(
      [](Mlp& model) {
        auto parameters = model.parameters();
        parameters.push_back(torch::zeros({7}, torch::requires_grad()));
        return std::make_unique<torch::optim::SGD>(parameters, 0.1);
      },
      "group 0 of the optimizer holds a parameter (7 f32) that the model does not have");
}

TEST(AllReduceReplica, RefusesLbfgs) {
  expect_refused(
      [](Mlp& model) { return std::make_unique<torch::optim::LBFGS>(model.parameters()); },
      "LBFGS");
}

TEST(AllReduceReplica, NoticesWhatIsUnfrozenLater) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    model.second->bias.set_requires_grad(false);
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    train(*replica, optimizer, model, communicator, 0, 1);
    model.second->bias.set_requires_grad(true);
    try {
      train(*replica, optimizer, model, communicator, 1, 2);
      ADD_FAILURE() << "an unfrozen parameter went unnoticed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("parameter second.bias requires a gradient now"));
    }
  });
}

TEST(AllReduceReplica, WhatIsFrozenLaterStays) {
  train_ranks(2, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    train(*replica, optimizer, model, communicator, 0, 1);
    model.second->weight.set_requires_grad(false);
    const auto frozen = model.second->weight.clone();
    train(*replica, optimizer, model, communicator, 1, 3);
    EXPECT_TRUE(torch::equal(model.second->weight, frozen));
    replica->check_equal();
  });
}

TEST(AllReduceReplica, NoticesAParameterThatTheOptimizerGotLater) {
  train_ranks(1, LinkKind::inproc, [](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    train(*replica, optimizer, model, communicator, 0, 1);
    optimizer.add_param_group(torch::optim::OptimizerParamGroup(
        std::vector<torch::Tensor>{torch::zeros({7}, torch::requires_grad())}));
    EXPECT_THROW(train(*replica, optimizer, model, communicator, 1, 2), BadInput);
  });
}

}  // namespace
}  // namespace asup
