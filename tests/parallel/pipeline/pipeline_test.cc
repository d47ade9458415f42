#include "asup/parallel/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/layers.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

using torch::Tensor;
using torch::nn::Sequential;

constexpr int kSteps = 50;
constexpr int kBatch = 16;

// The generator is one for all ranks that are threads.
std::mutex generator;

struct Data {
  Tensor inputs, targets;

  Data() {
    const std::lock_guard lock(generator);
    torch::manual_seed(3);
    inputs = torch::randn({kSteps, kBatch, 6});
    targets = torch::randint(4, {kSteps, kBatch});
  }
};

class HiddenImpl : public torch::nn::Module {
 public:
  HiddenImpl(int in, int out) : linear_(register_module("linear", Linear(in, out))) {}
  Tensor forward(const Tensor& x) { return linear_->forward(x).tanh(); }

 private:
  Linear linear_;
};
TORCH_MODULE(Hidden);

// Of layers that learn.
Sequential make_model(int layers = 8) {
  const std::lock_guard lock(generator);
  torch::manual_seed(7);
  Sequential model;
  for (int i = 0; i < layers; ++i) {
    const int in = i == 0 ? 6 : 12, out = i + 1 == layers ? 4 : 12;
    if (i + 1 == layers)
      model->push_back(Linear(in, out));
    else
      model->push_back(Hidden(in, out));
  }
  return model;
}

Tensor loss_of(const Tensor& output, const Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

torch::optim::SGD optimizer_of(std::vector<Tensor> parameters) {
  return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(0.2).momentum(0.9));
}

// In one process, whole batches.
std::vector<double> losses_alone(Sequential model, double clip = 0) {
  const Data data;
  auto optimizer = optimizer_of(model->parameters());
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(model->forward(data.inputs[i]), data.targets[i]);
    loss.backward();
    if (clip > 0) torch::nn::utils::clip_grad_norm_(model->parameters(), clip);
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

std::vector<double> train(Pipeline& pipeline, double clip = 0) {
  const Data data;
  auto optimizer = optimizer_of(pipeline.parameters());
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    losses.push_back(pipeline.step(data.inputs[i], data.targets[i]));
    if (clip > 0) pipeline.clip_grad_norm(clip);
    optimizer.step();
  }
  return losses;
}

void expect_alike(const std::vector<double>& losses, const std::vector<double>& alone) {
  ASSERT_EQ(losses.size(), alone.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    ASSERT_NEAR(losses[i], alone[i], 1e-5 * std::abs(alone[i])) << "step " << i;
}

struct Case {
  std::string schedule;
  int ranks;
};

class EverySchedule : public ::testing::TestWithParam<Case> {};

TEST_P(EverySchedule, FollowsOneProcess) {
  const std::vector<double> alone = losses_alone(make_model());
  EXPECT_LT(alone.back(), alone.front());
  for (const bool recompute : {false, true}) {
    if (recompute && GetParam().ranks != 2) continue;
    testing::run_ranks(GetParam().ranks, net::LinkKind::inproc, [&](Job& job) {
      Pipeline pipeline(job, make_model(), loss_of,
                        {.schedule = GetParam().schedule,
                         .micro_batches = 8,
                         .recompute = recompute,
                         .random = false});
      expect_alike(train(pipeline), alone);
      EXPECT_EQ(pipeline.stats().steps, kSteps);
    });
  }
}

std::vector<Case> every_schedule() {
  std::vector<Case> cases;
  for (const PipelineSchedule& schedule : pipeline_schedules())
    for (const int ranks : {1, 2, 4}) cases.push_back({std::string(schedule.name), ranks});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, EverySchedule, ::testing::ValuesIn(every_schedule()),
                         [](const auto& info) {
                           return info.param.schedule + "_" + std::to_string(info.param.ranks);
                         });

// By other micro-batches than usual in each step, and where layers are cut as they are told to be.
TEST(Pipeline, TakesItsLossAndMicroBatchesStepByStep) {
  const std::vector<double> alone = losses_alone(make_model());
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Pipeline pipeline(*communicator, make_model(), Pipeline::Loss(),
                      {.schedule = "zb1p", .random = false, .layers = {6, 2}});
    EXPECT_EQ(pipeline.cut(), (std::vector<std::size_t>{0, 6, 8}));
    const Data data;
    auto optimizer = optimizer_of(pipeline.parameters());
    std::vector<double> losses;
    for (int i = 0; i < kSteps; ++i) {
      const int micro_batches = 1 << i % 5;
      const auto targets = data.targets[i].chunk(micro_batches);
      optimizer.zero_grad();
      losses.push_back(pipeline.backward(
          data.inputs[i],
          [&](const Tensor& output, int micro_batch) {
            return loss_of(output, targets[static_cast<std::size_t>(micro_batch)]) / micro_batches;
          },
          micro_batches));
      optimizer.step();
    }
    expect_alike(losses, alone);
    EXPECT_EQ(pipeline.stats().steps, kSteps);
  });
}

TEST(Pipeline, RanksShareMemoryOfTheirLinks) {
  const std::vector<double> alone = losses_alone(make_model());
  testing::run_ranks(2, net::LinkKind::shm, [&](Job& job) {
    Pipeline pipeline(job, make_model(), loss_of,
                      {.schedule = "zb1p", .micro_batches = 4, .random = false});
    expect_alike(train(pipeline), alone);
  });
}

// One forward and one backward for each micro-batch, and what the call takes is computing.
TEST(Pipeline, TellsOfWhatItHasComputed) {
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    int calls = 0;
    const auto after = [&](double seconds) {
      EXPECT_GT(seconds, 0);
      ++calls;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    Pipeline pipeline(job, make_model(), loss_of,
                      {.micro_batches = 4, .random = false, .after_computing = after});
    const Data data;
    pipeline.step(data.inputs[0], data.targets[0]);
    EXPECT_EQ(calls, 2 * 4);
    EXPECT_GE(pipeline.stats().compute_seconds, 8 * 0.005);
  });
}

TEST(Pipeline, ClipsByTheNormOfAllStages) {
  const std::vector<double> alone = losses_alone(make_model(), 0.05);
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    Pipeline pipeline(job, make_model(), loss_of, {.micro_batches = 4, .random = false});
    expect_alike(train(pipeline, 0.05), alone);
  });
}

TEST(Pipeline, TestsWithTheWholeModelAndGathersIt) {
  Sequential alone = make_model();
  const Data data;
  const Tensor expected = alone->forward(data.inputs[0]);
  testing::run_ranks(3, net::LinkKind::inproc, [&](Job& job) {
    Pipeline pipeline(job, make_model(), loss_of, {.micro_batches = 1, .random = false});
    const Tensor output = pipeline.forward(data.inputs[0]);
    EXPECT_EQ(output.defined(), pipeline.has_last_stage());
    if (output.defined()) {
      EXPECT_TRUE(torch::allclose(output, expected, 1e-5, 1e-6));
    }
    const auto whole = pipeline.gather();
    EXPECT_EQ(whole.size(), job.rank() == 0 ? alone->parameters().size() : 0);
    for (const auto& [name, tensor] : whole)
      EXPECT_TRUE(torch::equal(tensor, alone->named_parameters()[name])) << name;
  });
}

TEST(Pipeline, OthersMemoryIsFreed) {
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    Sequential model = make_model();
    Pipeline pipeline(job, model, loss_of, {.micro_batches = 1, .random = false});
    std::int64_t here = 0, own = 0;
    for (const Tensor& parameter : model->parameters()) here += parameter.numel();
    for (const Tensor& parameter : pipeline.parameters()) own += parameter.numel();
    EXPECT_EQ(here, own);
    EXPECT_LT(own, 12 * 12 * 5);
  });
}

// Two pipelines on halves of the batches.
TEST(Pipeline, AveragesOverTheDataAxis) {
  const std::vector<double> alone = losses_alone(make_model());
  testing::run_ranks(4, net::LinkKind::inproc, [&](Job& job) {
    const auto all = make_communicator(job);
    Grid grid(*all, grid_of(4, 2, 1));
    Pipeline pipeline(grid.pipeline(), make_model(), loss_of,
                      {.micro_batches = 4, .random = false, .data = &grid.data()});
    const Data data;
    auto optimizer = optimizer_of(pipeline.parameters());
    const int half = kBatch / 2, begin = grid.place().data * half;
    for (int i = 0; i < kSteps; ++i) {
      optimizer.zero_grad();
      double loss = pipeline.step(data.inputs[i].narrow(0, begin, half),
                                  data.targets[i].narrow(0, begin, half));
      grid.data().all_reduce(buffer_of(std::span(&loss, 1)), ReduceOp::average).or_throw();
      optimizer.step();
      ASSERT_NEAR(loss, alone[static_cast<std::size_t>(i)], 1e-5 * loss) << "step " << i;
    }
  });
}

// The first matrix is the last one too.
class Tied : public torch::nn::Module {
 public:
  Tied() {
    const std::lock_guard lock(generator);
    torch::manual_seed(5);
    weight = register_parameter("weight", torch::randn({6, 6}) * 0.4);
    for (int i = 0; i < 2; ++i)
      inner.push_back(register_module("inner" + std::to_string(i), Linear(6, 6)));
    head = register_module("head", Linear(6, 4));
  }
  std::vector<Layer> layers() {
    const auto by_weight = [this](const Tensor& x) {
      return torch::tanh(parallel::linear(x, weight));
    };
    std::vector<Layer> made{{"in", by_weight, {"weight"}}};
    for (std::size_t i = 0; i < inner.size(); ++i)
      made.push_back({"inner",
                      [this, i](const Tensor& x) { return inner[i]->forward(x).tanh(); },
                      {"inner" + std::to_string(i)}});
    made.push_back({"out",
                    [this, by_weight](const Tensor& x) { return head->forward(by_weight(x)); },
                    {"weight", "head"}});
    return made;
  }
  Tensor forward(Tensor x) {
    for (const Layer& layer : layers()) x = layer.forward(x);
    return x;
  }

  Tensor weight;
  std::vector<Linear> inner;
  Linear head{nullptr};
};

TEST(Pipeline, SharedWeightsStayEqualOnBothEnds) {
  const Data data;
  Tied alone;
  auto optimizer = optimizer_of(alone.parameters());
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(alone.forward(data.inputs[i]), data.targets[i]);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(alone.parameters(), 0.3);
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  for (const char* schedule : {"1f1b", "zb1p", "zbv"}) {
    std::vector<Tensor> copies(2);
    testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
      const auto communicator = make_communicator(job);
      auto model = std::make_shared<Tied>();
      Pipeline pipeline(*communicator, model, model->layers(), loss_of,
                        {.schedule = schedule, .micro_batches = 4, .random = false});
      expect_alike(train(pipeline, 0.3), losses);
      copies[static_cast<std::size_t>(job.rank())] = model->weight.detach().clone();
    });
    if (std::string(schedule) != "zbv") {  // whose first rank has both ends
      EXPECT_TRUE(torch::equal(copies[0], copies[1])) << schedule;
    }
    EXPECT_TRUE(torch::allclose(copies[0], alone.weight, 1e-3, 1e-4)) << schedule;
  }
}

TEST(Pipeline, GradientsOfSharedWeightsAddUpOverSteps) {
  const Data data;
  Tied alone;
  for (int i = 0; i < 3; ++i) loss_of(alone.forward(data.inputs[i]), data.targets[i]).backward();
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    auto model = std::make_shared<Tied>();
    Pipeline pipeline(*communicator, model, model->layers(), loss_of,
                      {.micro_batches = 4, .random = false});
    for (int i = 0; i < 3; ++i) pipeline.step(data.inputs[i], data.targets[i]);
    EXPECT_TRUE(torch::allclose(model->weight.grad(), alone.weight.grad(), 1e-4, 1e-6));
  });
}

TEST(Pipeline, CopiesOfSharedWeightsCountOnceAndCanBeMadeEqual) {
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    auto model = std::make_shared<Tied>();
    Pipeline pipeline(*communicator, model, model->layers(), loss_of, {.random = false});
    const Tensor first = model->weight.detach().clone();
    EXPECT_EQ(pipeline.copies(),
              job.rank() == 0 ? std::vector<std::string>() : std::vector<std::string>{"weight"});
    if (job.rank() == 1) model->weight.detach().add_(1);
    pipeline.make_shared_equal();
    EXPECT_TRUE(torch::equal(model->weight, first));
  });
}

// Statistics are of micro-batches, as with gradient accumulation, and learned once of each.
TEST(Pipeline, BatchNormLearnsFromMicroBatches) {
  constexpr int kMicroBatches = 4;
  const auto make = [] {
    const std::lock_guard lock(generator);
    torch::manual_seed(5);
    return Sequential(Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(), Linear(8, 4));
  };
  const Data data;
  Sequential alone = make();
  auto optimizer = optimizer_of(alone->parameters());
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    double sum = 0;
    for (int m = 0; m < kMicroBatches; ++m) {
      const auto part = [&](const Tensor& batch) { return batch.chunk(kMicroBatches)[m]; };
      const Tensor loss =
          loss_of(alone->forward(part(data.inputs[i])), part(data.targets[i])) / kMicroBatches;
      loss.backward();
      sum += loss.item<double>();
    }
    optimizer.step();
    losses.push_back(sum);
  }
  for (const bool recompute : {false, true})
    testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
      Pipeline pipeline(job, make(), loss_of,
                        {.micro_batches = kMicroBatches, .recompute = recompute, .random = false});
      expect_alike(train(pipeline), losses);
      const auto whole = pipeline.gather();
      if (job.rank() > 0) return;
      EXPECT_TRUE(torch::allclose(whole.at("1.running_mean"),
                                  alone->named_buffers()["1.running_mean"], 1e-4, 1e-5));
      EXPECT_EQ(whole.at("1.num_batches_tracked").item<int>(), kSteps * kMicroBatches);
    });
}

// Of one rank, since the generator is the process's.
TEST(Pipeline, DropoutIsTheSameWhenComputedAgain) {
  const auto weights = [](bool recompute, int chunks) {
    std::map<std::string, Tensor> whole;
    testing::run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
      torch::manual_seed(1);
      Sequential model(Linear(6, 16), torch::nn::Dropout(0.5), Linear(16, 4));
      Pipeline pipeline(job, model, loss_of,
                        {.schedule = "gpipe", .micro_batches = 4, .recompute = recompute});
      torch::rand({chunks});  // what else is drawn plays no part
      train(pipeline);
      whole = pipeline.gather();
    });
    return whole;
  };
  const auto kept = weights(false, 1), again = weights(true, 3);
  for (const auto& [name, tensor] : kept) EXPECT_TRUE(torch::equal(tensor, again.at(name))) << name;
}

TEST(Pipeline, ItsDrawsDisturbNobodyElses) {
  testing::run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    torch::manual_seed(1);
    Sequential model(Linear(6, 16), torch::nn::Dropout(0.5), Linear(16, 4));
    Pipeline pipeline(job, model, loss_of, {.micro_batches = 4});
    torch::manual_seed(9);
    const Tensor expected = torch::rand({4});
    torch::manual_seed(9);
    const Data data;
    torch::manual_seed(9);
    pipeline.step(data.inputs[0], data.targets[0]);
    EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
  });
}

TEST(Pipeline, SaysWhatToChange) {
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    const auto refusal = [&](int layers, PipelineOptions options) {
      options.random = false;
      return testing::message_of<BadInput>(
          [&] { Pipeline(*communicator, make_model(layers), loss_of, options); });
    };
    EXPECT_EQ(refusal(1, {}),
              "2 stages (2 ranks × 1) of a model that has 1 layers: each stage needs one at least. "
              "Use fewer ranks or chunks, or a deeper model");
    EXPECT_NE(refusal(8, {.schedule = "1f1"}).find("1f1b"), std::string::npos);
    EXPECT_EQ(refusal(8, {.layers = {3, 3, 2}}),
              "layers of 3 stages for a pipeline of 2: give one number each");
    EXPECT_EQ(refusal(8, {.layers = {8, 0}}), "a stage of 0 layers: each has one at least");
    EXPECT_EQ(refusal(8, {.layers = {4, 5}}), "stages of 9 layers together, and the model has 8");
    Pipeline pipeline(*communicator, make_model(), loss_of, {.micro_batches = 3, .random = false});
    const Data data;
    EXPECT_EQ(
        testing::message_of<BadInput>([&] { pipeline.step(data.inputs[0], data.targets[0]); }),
        "a batch of 16 samples cannot be cut into 3 micro-batches of one size: give a "
        "multiple of 3, or other micro-batches");
    auto tied = std::make_shared<Tied>();
    auto layers = tied->layers();
    layers.pop_back();
    EXPECT_EQ(testing::message_of<BadInput>(
                  [&] { Pipeline(*communicator, tied, layers, loss_of, {.random = false}); }),
              "no layer uses the model's head.weight: name it in the layer that computes with it");
  });
}

TEST(Pipeline, RecomputationNeedsItsInput) {
  testing::run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    Sequential model(torch::nn::ReLU(torch::nn::ReLUOptions(true)), Linear(6, 4));
    Pipeline pipeline(job, model, loss_of, {.recompute = true, .random = false});
    const Data data;
    EXPECT_EQ(
        testing::message_of<BadInput>([&] { pipeline.step(data.inputs[0], data.targets[0]); }),
        "stage 0 changes its input in place, in or behind layer 0, and needs it again to "
        "recompute: use a layer that does not (ReLU without inplace)");
  });
}

TEST(Pipeline, TwoRanksThatDrawAtRandomCannotBeThreads) {
  std::atomic<int> refused = 0;
  testing::run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    std::optional<Pipeline> pipeline;
    const std::string refusal = testing::message_of<BadInput>(
        [&] { pipeline.emplace(*communicator, make_model(), loss_of, PipelineOptions{}); });
    if (!refusal.empty()) ++refused;
    communicator->barrier().or_throw();
  });
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace asup::parallel
