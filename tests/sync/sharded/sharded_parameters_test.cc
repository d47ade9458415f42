// Parameters of which each rank keeps a part, and which are gathered while they are computed with.
#include <ATen/ThreadLocalState.h>
#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <thread>
#include <utility>

#include "asup/base/error.h"
#include "asup/sync/sharded/operand_watch.h"
#include "tests/sync/sharded/sharded_training.h"
#include "tests/sync/watched_communicator.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::fill;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::train_ranks;
using torch::Tensor;

constexpr int kLayers = 12;

torch::nn::Sequential make_layers() {
  torch::nn::Sequential model;
  for (int layer = 0; layer < kLayers; ++layer)
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(64, 64).bias(false)));
  fill(*model, 1);
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model->parameters()) parameter.mul_(0.4);  // nothing grows
  return model;
}

// Without a look by an operator, which would gather it.
bool is_here(const Tensor& parameter) { return parameter.stride(0) != 0; }

std::int64_t count_here(const std::vector<Tensor>& parameters) {
  return std::count_if(parameters.begin(), parameters.end(), is_here);
}

std::unique_ptr<Replica> replica_of(Communicator& communicator, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer,
                                    Shard shard = Shard::parameters) {
  return make_all_reduce_replica(communicator, model, optimizer, testing::options_of(shard));
}

TEST(OperandWatch, TellsOfNothingOnThreadsThatWorkForItsOwn) {
  struct Listener : sync::OperandWatch::Listener {
    void before(sync::OperandWatch::Operands, bool) noexcept override { ++heard; }
    int heard = 0;
  } listener;
  const sync::OperandWatch watch(listener);
  const auto compute = [] { return (torch::ones({2}) + 1).sum(); };
  compute();
  const int heard = std::exchange(listener.heard, 0);
  EXPECT_GT(heard, 0);
  std::thread([&, state = at::ThreadLocalState()] {
    const at::ThreadLocalStateGuard taken_along(state);
    compute();
  }).join();
  EXPECT_EQ(listener.heard, 0);
  compute();
  EXPECT_EQ(listener.heard, heard);
}

// The one that is computed with, and where forward turns to backward the one before it.
TEST(ShardedParameters, AreGatheredALayerAtATime) {
  train_ranks(2, LinkKind::shm, [&](Communicator& communicator) {
    auto model = make_layers();
    const auto parameters = model->parameters();
    torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(0.01));
    const auto replica = replica_of(communicator, *model, optimizer);
    EXPECT_EQ(count_here(parameters), 0);
    std::int64_t most = 0;
    const auto look = [&] { most = std::max(most, count_here(parameters)); };
    for (int step = 0; step < 3; ++step) {
      Tensor x = testing::numbers({4, 64}, static_cast<std::uint64_t>(step));
      for (auto& layer : *model) {
        x = layer.forward(x);
        look();
      }
      for (const auto& parameter : parameters)
        parameter.register_hook([&](const Tensor&) { look(); });
      x.square().mean().backward();
      replica->step();
      EXPECT_EQ(count_here(parameters), 0);
    }
    EXPECT_EQ(most, 2);
  });
}

// From the second step on, a layer's parameters leave while the layer before it computes. Backward
// finds those of the two last layers, and does not need the first's.
TEST(ShardedParameters, AreGatheredAhead) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& real) {
    int gathered = 0;
    testing::WatchedCommunicator communicator(real, [&](const Call& call) {
      gathered += call.collective == collective::Collective::all_gather;
    });
    auto model = make_layers();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
    const auto replica = replica_of(communicator, *model, optimizer);
    for (int step = 0; step < 3; ++step) {
      gathered = 0;
      Tensor x = testing::numbers({4, 64}, 1);
      for (int layer = 0; layer < kLayers; ++layer) {
        x = model[static_cast<std::size_t>(layer)]->as<torch::nn::Linear>()->forward(x);
        if (step > 0) {
          EXPECT_EQ(gathered, std::min(layer + 2, kLayers)) << layer;
        }
      }
      x.square().mean().backward();
      EXPECT_EQ(gathered, kLayers + kLayers - (step > 0 ? 3 : 2));
      EXPECT_EQ(replica->step(), StepResult::applied);
    }
  });
}

TEST(ShardedParameters, AreNaNForThoseWhoReadMemory) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    auto model = make_layers();
    const auto parameters = model->parameters();
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.01));
    const auto before = testing::snapshot(*model);
    const auto replica = replica_of(communicator, *model, optimizer);
    EXPECT_TRUE(std::isnan(*parameters[3].data_ptr<float>()));
    EXPECT_EQ(parameters[3].sizes(), before[3].sizes());
    EXPECT_TRUE(torch::equal(parameters[3], before[3]));  // an operator, on all ranks
    replica->with_mean_model([&] {
      if (communicator.rank() == 0) {
        EXPECT_TRUE(torch::equal(parameters[5], before[5]));
      }
      EXPECT_EQ(*parameters[7].data_ptr<float>(), *before[7].data_ptr<float>());
    });
    EXPECT_FALSE(is_here(parameters[7]));
    EXPECT_FALSE(replica->has_moved());
  });
}

TEST(ShardedParameters, AreNaNAfterwardsThatMayBeWrittenTo) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    auto model = make_layers();
    const auto parameters = model->parameters();
    const auto before = testing::snapshot(*model);
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.01));
    (void)replica_of(communicator, *model, optimizer);
    EXPECT_TRUE(parameters[2].isnan().all().item<bool>());
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(before[i]);
    EXPECT_TRUE(torch::equal(parameters[2], before[2]));
  });
}

struct Losses {
  std::vector<double> by_step;
  std::vector<Tensor> model;
};

using MakeModel = std::function<std::shared_ptr<torch::nn::Module>()>;
using LossOf = std::function<Tensor(torch::nn::Module&, const testing::Batch&)>;

Losses train(const MakeModel& make, const LossOf& loss, Shard shard, int ranks, LinkKind links,
             int steps) {
  Losses losses;
  train_ranks(ranks, links, [&](Communicator& communicator) {
    const auto model = make();
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.003));
    const auto replica = replica_of(communicator, *model, optimizer, shard);
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      const Tensor of_step = loss(
          *model, part(Mlp::batch(static_cast<std::uint64_t>(step)), communicator.rank(), ranks));
      of_step.backward();
      replica->clip_grad_norm(1.0);
      EXPECT_EQ(replica->step(), StepResult::applied);
      if (communicator.rank() == 0) losses.by_step.push_back(of_step.item<double>());
    }
    replica->synchronize();
    replica->average_buffers();
    if (communicator.rank() > 0) return;
    losses.model = testing::snapshot(*model);
    for (const auto& buffer : model->buffers()) losses.model.push_back(buffer.clone());
  });
  return losses;
}

// Where an all-reduce and a reduce-scatter add in other orders, losses are equal to rounding.
TEST(ShardedParameters, TrainToTheSameLossesAcrossSockets) {
  const MakeModel make = [] { return std::make_shared<testing::Uneven>(); };
  const LossOf loss = [](torch::nn::Module& model, const testing::Batch& batch) {
    return loss_of(*model.as<testing::Uneven>(), batch);
  };
  const Losses whole = train(make, loss, Shard::none, 3, LinkKind::tcp, 50);
  const Losses sharded = train(make, loss, Shard::parameters, 3, LinkKind::tcp, 50);
  ASSERT_EQ(whole.by_step.size(), 50u);
  for (std::size_t i = 0; i < whole.by_step.size(); ++i)
    EXPECT_NEAR(sharded.by_step[i], whole.by_step[i], 1e-5 * whole.by_step[i]) << i;
  EXPECT_LT(testing::distance(sharded.model, whole.model), 1e-4);
}

// Recurrence, shared weights, views of weights, statistics: whatever operators compute with.
struct Entangled : torch::nn::Module {
  Entangled()
      : lift(register_module("lift", torch::nn::Linear(8, 16))),
        recurrent(register_module("recurrent",
                                  torch::nn::LSTM(torch::nn::LSTMOptions(16, 16).num_layers(2)))),
        norm(register_module("norm", torch::nn::BatchNorm1d(16))),
        table(register_parameter("table", torch::zeros({16, 16}))),
        out(register_module("out", torch::nn::Linear(16, 4))) {
    fill(*this, 3);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = torch::tanh(lift(x));
    h = h.matmul(table.narrow(0, 0, 16)) + h.matmul(table.t());
    h = norm(std::get<0>(recurrent(h.unsqueeze(0))).squeeze(0));
    return out(h.matmul(table) +
               torch::nn::functional::linear(h, lift->weight.matmul(lift->weight.t())));
  }
  torch::nn::Linear lift;
  torch::nn::LSTM recurrent;
  torch::nn::BatchNorm1d norm;
  Tensor table;
  torch::nn::Linear out;
};

TEST(ShardedParameters, OfAnyModelTrainToTheSameBits) {
  const MakeModel make = [] { return std::make_shared<Entangled>(); };
  const LossOf loss = [](torch::nn::Module& model, const testing::Batch& batch) {
    return loss_of(*model.as<Entangled>(), batch);
  };
  const Losses whole = train(make, loss, Shard::none, 2, LinkKind::shm, 8);
  const Losses sharded = train(make, loss, Shard::parameters, 2, LinkKind::shm, 8);
  EXPECT_EQ(sharded.by_step, whole.by_step);
  ASSERT_EQ(sharded.model.size(), whole.model.size());
  for (std::size_t i = 0; i < whole.model.size(); ++i)
    EXPECT_TRUE(torch::equal(sharded.model[i], whole.model[i])) << i;
}

// What a program does to its parameters between steps counts, where all ranks do it.
TEST(ShardedParameters, MayBeChangedBetweenSteps) {
  train_ranks(2, LinkKind::shm, [&](Communicator& communicator) {
    auto model = make_layers();
    const auto parameters = model->parameters();
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.01));
    const auto replica = replica_of(communicator, *model, optimizer);
    {
      torch::NoGradGuard no_grad;
      for (const auto& parameter : parameters) parameter.clamp_(-0.01, 0.01);
    }
    replica->synchronize();
    for (const auto& parameter : parameters)
      EXPECT_LE(parameter.abs().max().item<double>(), 0.0100001);
  });
}

// Who meets a layer that cannot be gathered any more computes NaN, and is told by the replica.
TEST(ShardedParameters, AreMissedWhenARankHasLeft) {
  std::latch both_have_one(2);  // who left before that would be missed while it is made
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    auto model = make_layers();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
    const auto replica = replica_of(communicator, *model, optimizer);
    both_have_one.arrive_and_wait();
    if (communicator.rank() == 1) return communicator.abandon();
    const Tensor loss = model->forward(testing::numbers({4, 64}, 1)).square().mean();
    EXPECT_TRUE(std::isnan(loss.item<double>()));
    EXPECT_THROW(replica->step(), JobFailed);
  });
}

}  // namespace
}  // namespace asup
