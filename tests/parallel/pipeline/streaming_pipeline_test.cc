#include "asup/parallel/pipeline/streaming_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/layers.h"
#include "tests/support/ranks.h"

namespace asup::parallel {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using torch::Tensor;
using torch::nn::Sequential;

constexpr int kSteps = 24;
constexpr int kStretch = 8;  // steps between two settle()
constexpr int kBatch = 24;

std::mutex generator;  // one for all ranks that are threads

struct Data {
  Tensor inputs, targets;

  Data() {
    const std::lock_guard lock(generator);
    torch::manual_seed(3);
    inputs = torch::randn({kSteps, kBatch, 6});
    targets = torch::randint(4, {kSteps, kBatch});
  }
};

Sequential make_model() {
  const std::lock_guard lock(generator);
  torch::manual_seed(7);
  Sequential model;
  for (int i = 0; i < 4; ++i) {
    model->push_back(Linear(i == 0 ? 6 : 12, i == 3 ? 4 : 12));
    if (i < 3) model->push_back(torch::nn::Tanh());
  }
  return model;
}

Tensor loss_of(const Tensor& output, const Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

torch::optim::SGD optimizer_of(std::vector<Tensor> parameters) {
  return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(0.2).momentum(0.9));
}

// By batch: halved twice on the way.
double rate_of(int step) { return step < kSteps / 2 ? 0.2 : 0.1; }

template <typename Optimizer>
void set_rate(Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

void copy_weights(const Sequential& from, Sequential& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from->parameters();
  auto target = to->parameters();
  for (std::size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
}

// In one process, straight from the definition: the mean losses of stretches, and the last weights.
struct Reference {
  std::vector<double> losses;
  Sequential weights = make_model();

  Reference() {
    const Data data;
    auto optimizer = optimizer_of(weights->parameters());
    Sequential before = make_model(), here = make_model();  // w(k-1)
    for (int k = 0; k < kSteps; ++k) {
      if (k % kStretch == 0) {
        losses.push_back(0);
        copy_weights(weights, before);
      }
      copy_weights(before, here);
      copy_weights(weights, before);
      here->zero_grad();
      const Tensor loss = loss_of(here->forward(data.inputs[k]), data.targets[k]);
      loss.backward();
      losses.back() += loss.item<double>() / kStretch;
      for (std::size_t i = 0; i < here->parameters().size(); ++i)
        weights->parameters()[i].mutable_grad() = here->parameters()[i].grad().clone();
      set_rate(optimizer, rate_of(k));
      optimizer.step();
    }
  }
};

std::vector<double> train(StreamingPipeline& pipeline, int begin = 0, int samples = kBatch) {
  const Data data;
  auto optimizer = optimizer_of(pipeline.parameters());
  std::vector<double> losses;
  for (int k = 0; k < kSteps; ++k) {
    set_rate(optimizer, rate_of(k));
    pipeline.step(data.inputs[k].narrow(0, begin, samples),
                  data.targets[k].narrow(0, begin, samples), optimizer);
    if (k % kStretch + 1 == kStretch) losses.push_back(pipeline.settle(optimizer));
  }
  return losses;
}

void expect_alike(const std::vector<double>& losses, const std::vector<double>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 2e-5 * std::abs(expected[i])) << "stretch " << i;
}

void expect_weights(const std::map<std::string, Tensor>& whole, const Sequential& expected) {
  for (const auto& each : expected->named_parameters())
    EXPECT_TRUE(torch::allclose(whole.at(each.key()), each.value(), 1e-4, 1e-5)) << each.key();
}

struct Case {
  int ranks, micro_batches;
};

class Streaming : public ::testing::TestWithParam<Case> {};

TEST_P(Streaming, IsOneUpdateLate) {
  const Reference reference;
  EXPECT_LT(reference.losses.back(), reference.losses.front());
  for (const bool recompute : {false, true})
    testing::run_ranks(GetParam().ranks, net::LinkKind::inproc, [&](Job& job) {
      StreamingPipeline pipeline(
          job, make_model, loss_of,
          {.micro_batches = GetParam().micro_batches, .recompute = recompute, .random = false});
      expect_alike(train(pipeline), reference.losses);
      EXPECT_EQ(pipeline.stats().steps, kSteps);
      const auto whole = pipeline.gather();
      if (job.rank() == 0) expect_weights(whole, reference.weights);
    });
}

INSTANTIATE_TEST_SUITE_P(All, Streaming,
                         ::testing::Values(Case{1, 1}, Case{2, 1}, Case{2, 8}, Case{3, 2},
                                           Case{4, 3}, Case{4, 6}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) + "_ranks_" +
                                  std::to_string(info.param.micro_batches) + "_micro_batches";
                         });

TEST(StreamingPipeline, RanksShareMemoryOfTheirLinks) {
  const Reference reference;
  testing::run_ranks(2, net::LinkKind::shm, [&](Job& job) {
    StreamingPipeline pipeline(job, make_model, loss_of, {.micro_batches = 4, .random = false});
    expect_alike(train(pipeline), reference.losses);
  });
}

TEST(StreamingPipeline, AveragesOverTheDataAxis) {
  const Reference reference;
  testing::run_ranks(4, net::LinkKind::inproc, [&](Job& job) {
    const auto all = make_communicator(job);
    Grid grid(*all, grid_of(4, 2, 1));
    StreamingPipeline pipeline(grid.pipeline(), make_model, loss_of,
                               {.micro_batches = 4, .random = false, .data = &grid.data()});
    const int half = kBatch / 2;
    std::vector<double> losses = train(pipeline, grid.place().data * half, half);
    grid.data().all_reduce(buffer_of(std::span(losses)), ReduceOp::average).or_throw();
    expect_alike(losses, reference.losses);
  });
}

// They learn from each micro-batch once, whichever weights it is computed with.
TEST(StreamingPipeline, BuffersHaveNoVersions) {
  const auto make = [] {
    const std::lock_guard lock(generator);
    torch::manual_seed(5);
    return Sequential(Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(), Linear(8, 4));
  };
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    StreamingPipeline pipeline(job, make, loss_of, {.micro_batches = 4, .random = false});
    train(pipeline);
    const auto whole = pipeline.gather();
    if (job.rank() > 0) return;
    EXPECT_EQ(whole.at("1.num_batches_tracked").item<int>(), kSteps * 4);
    EXPECT_GT(whole.at("1.running_mean").abs().max().item<double>(), 0.01);
  });
}

// Micro-batches of another size may come after settle().
TEST(StreamingPipeline, AStretchMayHaveOtherBatches) {
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    StreamingPipeline pipeline(job, make_model, loss_of, {.micro_batches = 4, .random = false});
    const Data data;
    auto optimizer = optimizer_of(pipeline.parameters());
    for (const int samples : {kBatch, 8}) {
      for (int k = 0; k < 3; ++k)
        pipeline.step(data.inputs[k].narrow(0, 0, samples), data.targets[k].narrow(0, 0, samples),
                      optimizer);
      EXPECT_GT(pipeline.settle(optimizer), 0);
    }
    const Tensor output = pipeline.forward(data.inputs[0]);
    EXPECT_EQ(output.defined(), job.rank() == 1);
  });
}

TEST(StreamingPipeline, RefusesWhatItCannotDo) {
  testing::run_ranks(3, net::LinkKind::inproc, [&](Job& job) {
    const auto make = [&](int micro_batches) {
      StreamingPipeline pipeline(job, make_model, loss_of,
                                 {.micro_batches = micro_batches, .random = false});
    };
    EXPECT_THAT([&] { make(1); }, ThrowsMessage<BadInput>(HasSubstr("needs 2 micro-batches")));
  });
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    StreamingPipeline pipeline(job, make_model, loss_of, {.micro_batches = 5, .random = false});
    const Data data;
    auto optimizer = optimizer_of(pipeline.parameters());
    EXPECT_THAT([&] { pipeline.step(data.inputs[0], data.targets[0], optimizer); },
                ThrowsMessage<BadInput>(HasSubstr("24 samples cannot be cut into 5")));
  });
}

// One matrix at both ends.
class Tied : public torch::nn::Module {
 public:
  Tied() {
    const std::lock_guard lock(generator);
    torch::manual_seed(5);
    weight = register_parameter("weight", torch::randn({6, 6}) * 0.4);
    inner = register_module("inner", Linear(6, 6));
    head = register_module("head", Linear(6, 4));
  }
  static LayeredModel layered() {
    auto model = std::make_shared<Tied>();
    return LayeredModel(model, model->layers());
  }
  std::vector<Layer> layers() {
    return {
        {"in", [this](const Tensor& x) { return x.mm(weight).tanh(); }, {"weight"}},
        {"inner", [this](const Tensor& x) { return inner(x).tanh(); }, {"inner"}},
        {"out", [this](const Tensor& x) { return head(x.mm(weight).tanh()); }, {"weight", "head"}}};
  }
  Tensor forward(Tensor x) {
    for (const Layer& layer : layers()) x = layer.forward(x);
    return x;
  }

  Tensor weight;
  Linear inner{nullptr}, head{nullptr};
};

// In one process: as Reference, but that the matrix learns of a batch with the next one's update.
std::map<std::string, Tensor> tied_alone() {
  const torch::AutoGradMode with_gradients(true);
  const Data data;
  Tied weights, before, here;
  const auto copy = [](Tied& from, Tied& to) {
    const torch::NoGradGuard no_grad;
    for (auto& each : to.named_parameters())
      each.value().copy_(from.named_parameters()[each.key()]);
  };
  auto optimizer = optimizer_of(weights.parameters());
  Tensor late;
  const auto step = [&](bool all) {
    for (auto& each : weights.named_parameters())
      each.value().mutable_grad() =
          all ? here.named_parameters()[each.key()].grad().clone() : Tensor();
    const Tensor of_matrix = all ? weights.weight.grad() : Tensor();
    weights.weight.mutable_grad() = std::exchange(late, of_matrix);
    optimizer.step();
  };
  for (int k = 0; k < kSteps; ++k) {
    if (k % kStretch == 0) copy(weights, before);
    copy(before, here);
    copy(weights, before);
    here.zero_grad();
    loss_of(here.forward(data.inputs[k]), data.targets[k]).backward();
    set_rate(optimizer, rate_of(k));
    step(true);
    if (k % kStretch + 1 == kStretch) step(false);
  }
  std::map<std::string, Tensor> whole;
  for (const auto& each : weights.named_parameters()) whole[each.key()] = each.value().detach();
  return whole;
}

TEST(StreamingPipeline, SharedWeightsAreTwoUpdatesLateAndEqual) {
  const auto expected = tied_alone();
  for (const int ranks : {2, 3}) {
    std::vector<Tensor> copies(static_cast<std::size_t>(ranks));
    testing::run_ranks(ranks, net::LinkKind::inproc, [&](Job& job) {
      const auto communicator = make_communicator(job);
      StreamingPipeline pipeline(*communicator, Tied::layered, loss_of,
                                 {.micro_batches = 4, .random = false});
      train(pipeline);
      const auto here = pipeline.module().named_parameters();
      if (here.contains("weight"))
        copies[static_cast<std::size_t>(job.rank())] = here["weight"].detach().clone();
      const auto whole = pipeline.gather();
      for (const auto& [name, tensor] : whole)
        EXPECT_TRUE(torch::allclose(tensor, expected.at(name), 1e-4, 1e-5)) << name;
    });
    EXPECT_TRUE(torch::equal(copies.front(), copies.back()));
  }
}

}  // namespace
}  // namespace asup::parallel
