// Training with shards gives the bits of training without.
#include "tests/sync/sharded/sharded_training.h"

#include <gtest/gtest.h>

#include <mutex>

#include "asup/base/error.h"
#include "asup/sync/gradients/all_reduce.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::by_name;
using testing::expect_same;
using testing::fill;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::Mlp;
using testing::NamedOptimizer;
using testing::NamedTensors;
using testing::optimizers_to_shard;
using testing::part;
using testing::train_ranks;
using testing::Uneven;

struct Training {
  testing::MakeOptimizer optimizer;
  Shard shard = Shard::none;
  int ranks = 2;
  LinkKind links = LinkKind::inproc;
  int steps = 6;
  double clip_norm = 0;
  NamedTensors start{};  // state that the optimizer begins with
  std::function<void(Uneven&)> change = [](Uneven&) {};
  torch::ScalarType type = torch::kFloat32;
};

struct Trained {
  NamedTensors model, state;
};

void take_steps(Replica& replica, torch::optim::Optimizer& optimizer, Uneven& model,
                const Training& training, const Communicator& communicator) {
  for (int step = 0; step < training.steps; ++step) {
    optimizer.zero_grad();
    const auto batch = Mlp::batch(step, 24, training.type);
    loss_of(model, part(batch, communicator.rank(), communicator.size())).backward();
    if (training.clip_norm > 0) replica.clip_grad_norm(training.clip_norm);
    EXPECT_EQ(replica.step(), StepResult::applied);
  }
}

// What all ranks have in the end, as rank 0 has it, and the state as a checkpoint has it.
Trained train(const Training& training) {
  Trained trained;
  std::mutex mutex;
  train_ranks(training.ranks, training.links, [&](Communicator& communicator) {
    Uneven model(training.type);
    training.change(model);
    const auto optimizer = training.optimizer(model);
    const auto parameters = sync::parameters_of(model);
    sync::set_named_state(*optimizer, parameters, training.start);
    const auto replica = make_all_reduce_replica(communicator, model, *optimizer,
                                                 testing::options_of(training.shard));
    take_steps(*replica, *optimizer, model, training, communicator);
    replica->check_equal();
    replica->synchronize();
    auto state = replica->fetch_optimizer_state();
    for (auto& named : sync::named_state(*optimizer, parameters)) state.push_back(named);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) trained.model = by_name(parameters);
    for (auto& [name, tensor] : by_name(state)) trained.state[name] = tensor;
  });
  return trained;
}

class Sharded : public ::testing::TestWithParam<std::tuple<NamedOptimizer, Shard>> {
 protected:
  Training training() const { return {.optimizer = std::get<0>(GetParam()).make}; }
  Shard shard() const { return std::get<1>(GetParam()); }
  // The bits of training without shards.
  void expect_same_bits(Training training) const {
    const Trained whole = train(training);
    training.shard = shard();
    const Trained sharded = train(training);
    expect_same(sharded.model, whole.model);
    expect_same(sharded.state, whole.state);
  }
};

TEST_P(Sharded, TrainsToTheSameBits) {
  for (const int ranks : {1, 2, 3}) {
    Training with = training();
    with.ranks = ranks;
    expect_same_bits(with);
  }
}

TEST_P(Sharded, ClipsToTheSameBits) {
  Training with = training();
  with.clip_norm = 0.01;
  expect_same_bits(with);
}

// As convolutions' are where pixels come before channels: the state lies as its parameter does.
TEST_P(Sharded, OfAWeightThatLiesTransposed) {
  Training with = training();
  with.change = [](Uneven& model) {
    torch::Tensor& weight = model.second->weight;
    weight.set_data(weight.detach().t().contiguous().t());
  };
  expect_same_bits(with);
}

TEST_P(Sharded, GoesOnFromAStateOfOtherRanks) {
  Training with = training();
  with.ranks = 3;
  with.shard = shard();
  with.start = train(with).state;
  with.ranks = 2;
  with.shard = Shard::none;
  expect_same_bits(with);
}

// State that all ranks get together is that of training without shards, and another replica goes on
// from it.
TEST_P(Sharded, StateIsGatheredForAnotherWay) {
  const Trained whole = train(training());
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    Uneven model;
    const auto optimizer = training().optimizer(model);
    const auto parameters = sync::parameters_of(model);
    {
      const auto replica =
          make_all_reduce_replica(communicator, model, *optimizer, testing::options_of(shard()));
      take_steps(*replica, *optimizer, model, training(), communicator);
      replica->gather_optimizer_state();
      optimizer->zero_grad();
    }
    expect_same(by_name(sync::named_state(*optimizer, parameters)), whole.state);
    expect_same(by_name(parameters), whole.model);
    EXPECT_EQ(optimizer->state().size(), whole.state.empty() ? 0 : parameters.size());
  });
}

constexpr Shard kShards[] = {Shard::optimizer, Shard::gradients, Shard::parameters};

INSTANTIATE_TEST_SUITE_P(Optimizers, Sharded,
                         ::testing::Combine(::testing::ValuesIn(optimizers_to_shard()),
                                            ::testing::ValuesIn(kShards)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::string(config::name_of_choice(std::get<1>(info.param)));
                         });

class ShardedModel : public ::testing::TestWithParam<Shard> {
 protected:
  void expect_same_bits(Training training) const {
    const Trained whole = train(training);
    training.shard = GetParam();
    const Trained sharded = train(training);
    expect_same(sharded.model, whole.model);
    expect_same(sharded.state, whole.state);
  }
  Training adam() const {
    return {.optimizer = testing::maker<torch::optim::Adam>(torch::optim::AdamOptions(0.01))};
  }
};

TEST_P(ShardedModel, OfMoreRanksThanItsTensorsHaveChunks) {
  Training with = adam();
  with.ranks = 7;
  with.steps = 3;
  expect_same_bits(with);
}

TEST_P(ShardedModel, AcrossMemoryAndSockets) {
  for (const LinkKind links : {LinkKind::shm, LinkKind::tcp}) {
    Training with = adam();
    with.links = links;
    expect_same_bits(with);
  }
}

TEST_P(ShardedModel, OfDoublesAndOf16Bits) {
  for (const auto type : {torch::kFloat64, torch::kBFloat16}) {
    Training with = adam();
    with.type = type;
    expect_same_bits(with);
  }
}

TEST_P(ShardedModel, WithParametersThatAreFrozen) {
  Training with = adam();
  with.change = [](Uneven& model) { model.second->weight.set_requires_grad(false); };
  expect_same_bits(with);
}

TEST_P(ShardedModel, InGroupsWithOptionsOfTheirOwnThatChange) {
  const auto run = [&](Shard shard) {
    NamedTensors result;
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Uneven model;
      auto decayed = std::make_unique<torch::optim::AdamWOptions>(0.01);
      decayed->weight_decay(0.1);
      auto plain = std::make_unique<torch::optim::AdamWOptions>(0.02);
      plain->weight_decay(0);
      torch::optim::AdamW optimizer(
          {{{model.first->weight, model.second->weight, model.third->weight}, std::move(decayed)},
           {{model.scale, model.first->bias, model.second->bias, model.third->bias},
            std::move(plain)}},
          torch::optim::AdamWOptions(0.5));
      const auto replica =
          make_all_reduce_replica(communicator, model, optimizer, testing::options_of(shard));
      torch::optim::StepLR schedule(optimizer, 2, 0.5);
      for (int step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        loss_of(model, part(Mlp::batch(step), communicator.rank(), 2)).backward();
        replica->step();
        schedule.step();
      }
      replica->synchronize();
      if (communicator.rank() == 0) result = by_name(sync::parameters_of(model));
    });
    return result;
  };
  expect_same(run(GetParam()), run(Shard::none));
}

TEST_P(ShardedModel, KeepsItsPartOfTheStateAlone) {
  std::vector<std::int64_t> kept(4);
  std::int64_t all = 0;
  train_ranks(4, LinkKind::inproc, [&](Communicator& communicator) {
    Uneven model;
    torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(0.01));
    const auto replica =
        make_all_reduce_replica(communicator, model, optimizer, testing::options_of(GetParam()));
    take_steps(*replica, optimizer, model, adam(), communicator);
    for (const auto& [key, state] : optimizer.state()) {
      const auto& adam = static_cast<torch::optim::AdamParamState&>(*state);
      kept[communicator.rank()] += adam.exp_avg().numel() + adam.exp_avg_sq().numel();
    }
    if (communicator.rank() > 0) return;
    for (const auto& parameter : model.parameters()) all += 2 * parameter.numel();
  });
  EXPECT_EQ(kept[0] + kept[1] + kept[2] + kept[3], all);
  for (const std::int64_t each : kept) EXPECT_LT(each, all / 4 + 2 * 1024);
}

// Parameters are where the program left them when the replica has gone, and have its values.
TEST_P(ShardedModel, IsInMemoryOfItsOwnAgain) {
  train_ranks(2, LinkKind::shm, [&](Communicator& communicator) {
    Uneven model;
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    const auto tensors = model.parameters();
    NamedTensors trained;
    {
      const auto replica =
          make_all_reduce_replica(communicator, model, optimizer, testing::options_of(GetParam()));
      take_steps(*replica, optimizer, model, adam(), communicator);
      replica->synchronize();
      trained = by_name(sync::parameters_of(model));
    }
    EXPECT_TRUE(optimizer.state().empty());
    expect_same(by_name(sync::parameters_of(model)), trained);
    EXPECT_TRUE(tensors.front().is_same(model.parameters().front()));
    optimizer.zero_grad();
    loss_of(model, Mlp::batch(9)).backward();
    optimizer.step();
    EXPECT_FALSE(torch::equal(model.first->weight, trained["first.weight"]));
  });
}

TEST_P(ShardedModel, LeavesStepsOutThatAreNotFinite) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    Uneven model;
    torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(0.01));
    const auto replica =
        make_all_reduce_replica(communicator, model, optimizer, testing::options_of(GetParam()));
    const NamedTensors before = by_name(sync::parameters_of(model));
    const double spoils = communicator.rank() == 1 ? std::numeric_limits<double>::infinity() : 1;
    (loss_of(model, Mlp::batch(1)) * spoils).backward();
    EXPECT_EQ(replica->step(), StepResult::skipped);
    expect_same(by_name(sync::parameters_of(model)), before);
    optimizer.zero_grad();
    loss_of(model, Mlp::batch(1)).backward();
    EXPECT_EQ(replica->step(), StepResult::applied);
    replica->check_equal();
  });
}

// While backward goes on, gradients that have travelled are gone: a few buckets are in memory.
TEST(ShardedGradients, GoWhileBackwardGoesOn) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    torch::nn::Sequential model;
    for (int layer = 0; layer < 12; ++layer)
      model->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
    fill(*model, 1);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    const auto replica = make_all_reduce_replica(
        communicator, *model, optimizer,
        {.bucket_bytes = 1, .first_bucket_bytes = 1, .shard = Shard::gradients});
    std::size_t most = 0;
    for (const auto& parameter : model->parameters())
      parameter.register_hook([&](const torch::Tensor&) {
        std::size_t defined = 0;
        for (const auto& each : model->parameters())
          defined += each.grad().defined() && each.grad().is_contiguous();
        most = std::max(most, defined);
      });
    model->forward(Mlp::batch(1).data).square().mean().backward();
    EXPECT_GE(most, 1u);
    EXPECT_LE(most, 3u);
    for (const auto& parameter : model->parameters()) {
      EXPECT_TRUE(parameter.grad().isnan().all().item<bool>());
      EXPECT_THROW(parameter.grad().mul_(0.5), c10::Error);
    }
    replica->step();
    for (const auto& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
    replica->check_equal();
  });
}

// A second backward before the step is exchanged apart, and adds up.
TEST(ShardedGradients, OfTwoBackwardsAddUp) {
  const auto train_twice = [](Shard shard, bool describes) {
    std::vector<torch::Tensor> trained;
    train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
      Uneven model;
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05));
      const auto replica =
          make_all_reduce_replica(communicator, model, optimizer, testing::options_of(shard));
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        if (describes) replica->describe_batch(32, 1);
        for (const int half : {0, 1})
          loss_of(model, part(Mlp::batch(2 * step + half), communicator.rank(), 2)).backward();
        replica->step();
      }
      replica->check_equal();
      replica->synchronize();
      if (communicator.rank() == 0) trained = testing::snapshot(model);
    });
    return trained;
  };
  for (const bool describes : {false, true}) {
    const auto whole = train_twice(Shard::none, describes);
    for (const Shard shard : {Shard::gradients, Shard::parameters})
      EXPECT_LT(testing::distance(train_twice(shard, describes), whole), 1e-6) << describes;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ShardedModel, ::testing::ValuesIn(kShards), [](const auto& info) {
  return std::string(config::name_of_choice(info.param));
});

template <typename Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

struct Strange : torch::optim::Optimizer {
  explicit Strange(std::vector<torch::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  torch::Tensor step(LossClosure = nullptr) override { return {}; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
};

TEST(Sharding, IsRefusedWhereItCannotBe) {
  Uneven model;
  Strange strange(model.parameters());
  const Way& way = way_of(AllReduce{});
  EXPECT_THAT(
      refusal([&] { way.check_model(AllReduce{.shard = Shard::optimizer}, model, strange); }),
      HasSubstr("cannot be cut into shards"));
  EXPECT_THAT(
      refusal([&] { way.check(AllReduce{.shard = Shard::optimizer, .compress = Compress::dgc}); }),
      HasSubstr("leave one of them out"));
  EXPECT_THAT(
      refusal([&] { way.check(AllReduce{.shard = Shard::gradients, .compress = Compress::int8}); }),
      HasSubstr("sums gradients as they are"));
  EXPECT_THAT(refusal([&] {
                way.check(AllReduce{.shard = Shard::parameters, .compress = Compress::int8});
              }),
              HasSubstr("shard parameters sums gradients as they are"));
}

}  // namespace
}  // namespace asup
