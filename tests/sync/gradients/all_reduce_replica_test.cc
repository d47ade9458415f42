// What the all-reduce replica promises beyond the conformance suite.
#include "asup/sync/gradients/all_reduce_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "asup/base/error.h"
#include "tests/sync/gradients/all_reduce_training.h"

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
using testing::sgd;
using testing::snapshot;
using testing::train;
using testing::train_ranks;
using testing::trained_alone;

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

}  // namespace
}  // namespace asup
