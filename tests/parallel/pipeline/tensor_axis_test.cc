// Pipelines whose layers are cut: two stages, each on two ranks.
#include "asup/parallel/pipeline/tensor_axis.h"

#include <gtest/gtest.h>

#include <mutex>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/pipeline.h"
#include "asup/parallel/tensor/linear.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::parallel {
namespace {

using torch::Tensor;
using torch::nn::Sequential;

constexpr int kSteps = 8;
constexpr double kClip = 0.05;

// torch's generator is one for all ranks that are threads.
template <typename Make>
auto seeded(const Make& make) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(3);
  return make();
}

// Units that the two ranks of a group share, a layer that each has whole, and units again.
Sequential make_cut(const TensorGroup& group) {
  return seeded([&] {
    return Sequential(ColumnParallelLinear(6, 12, group), torch::nn::Tanh(),
                      RowParallelLinear(12, 12, group), torch::nn::Linear(12, 12),
                      torch::nn::Tanh(), ColumnParallelLinear(12, 9, group), torch::nn::Tanh(),
                      RowParallelLinear(9, 4, group));
  });
}

Sequential make_whole() {
  return seeded([] {
    using torch::nn::Linear;
    using torch::nn::Tanh;
    return Sequential(Linear(6, 12), Tanh(), Linear(12, 12), Linear(12, 12), Tanh(), Linear(12, 9),
                      Tanh(), Linear(9, 4));
  });
}

struct Data {
  Tensor inputs = seeded([] { return torch::randn({kSteps, 8, 6}); });
  Tensor targets = seeded([] { return torch::randint(4, {kSteps, 8}); });
};

Tensor loss_of(const Tensor& output, const Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

torch::optim::SGD optimizer_of(std::vector<Tensor> parameters) {
  return torch::optim::SGD(std::move(parameters), torch::optim::SGDOptions(0.5).momentum(0.9));
}

// Runs `body` on each rank of two stages by two parts.
template <typename Body>
void run_grid(const Body& body) {
  torch::set_num_threads(1);
  testing::run_ranks(4, net::LinkKind::inproc, [&](Job& job) {
    const auto all = make_communicator(job);
    Grid grid(*all, grid_of(4, 2, 2));
    const TensorGroup group(grid.tensor().split(0, grid.place().tensor));
    body(grid, group);
  });
}

TEST(PipelineOfCutLayers, ClipsByTheNormOfAllPartsAndGathersThem) {
  const Data data;
  Sequential whole = make_whole();
  auto alone = optimizer_of(whole->parameters());
  std::vector<double> losses, norms;
  for (int i = 0; i < kSteps; ++i) {
    alone.zero_grad();
    const Tensor loss = loss_of(whole->forward(data.inputs[i]), data.targets[i]);
    loss.backward();
    norms.push_back(torch::nn::utils::clip_grad_norm_(whole->parameters(), kClip));
    alone.step();
    losses.push_back(loss.item<double>());
  }
  std::vector<Tensor> uncut(2);  // of both ranks of a group
  run_grid([&](Grid& grid, const TensorGroup& group) {
    Pipeline pipeline(grid.pipeline(), make_cut(group), loss_of,
                      {.random = false, .layers = {3, 5}, .tensor = &grid.tensor()});
    auto optimizer = optimizer_of(pipeline.parameters());
    for (int i = 0; i < kSteps; ++i) {
      const auto step = static_cast<std::size_t>(i);
      optimizer.zero_grad();
      const double loss = pipeline.step(data.inputs[i], data.targets[i]);
      const double norm = pipeline.clip_grad_norm(kClip);
      optimizer.step();
      ASSERT_NEAR(loss, losses[step], 1e-5 * losses[step]) << "step " << i;
      ASSERT_NEAR(norm, norms[step], 1e-4 * norms[step]) << "step " << i;
    }
    if (grid.place().pipeline == 1)
      uncut[static_cast<std::size_t>(grid.place().tensor)] =
          pipeline.module().named_parameters()["3.weight"].detach().clone();
    const auto gathered = pipeline.gather();
    const bool first = grid.place() == GridPlace{};
    ASSERT_EQ(gathered.size(), first ? whole->parameters().size() : 0);
    for (const auto& [name, tensor] : gathered)
      EXPECT_TRUE(torch::allclose(tensor, whole->named_parameters()[name], 1e-4, 1e-5)) << name;
  });
  EXPECT_TRUE(torch::equal(uncut[0], uncut[1]));
}

TEST(PipelineOfCutLayers, CountsWhatIsNotCutOnce) {
  double counted = 0, of_all = 0;
  std::mutex mutex;
  run_grid([&](Grid& grid, const TensorGroup& group) {
    Pipeline pipeline(grid.pipeline(), make_cut(group), loss_of,
                      {.random = false, .layers = {3, 5}, .tensor = &grid.tensor()});
    for (Tensor& parameter : pipeline.parameters())
      parameter.mutable_grad() = torch::ones_like(parameter);
    const std::lock_guard lock(mutex);
    counted += pipeline.squared_gradients();
    for (const Tensor& parameter : pipeline.parameters())
      of_all += static_cast<double>(parameter.numel());
  });
  double parameters = 0,
         uncut = 12 + 12 * 12 + 12 + 4;  // the second layer's bias, the third, the last bias
  for (const Tensor& parameter : make_whole()->parameters())
    parameters += static_cast<double>(parameter.numel());
  EXPECT_EQ(counted, parameters);
  EXPECT_EQ(of_all, parameters + uncut);
}

TEST(PipelineOfCutLayers, WithoutTheirRanksTheyAreRefused) {
  run_grid([](Grid& grid, const TensorGroup& group) {
    Pipeline pipeline(grid.pipeline(), make_cut(group), loss_of, {.random = false});
    EXPECT_EQ(
        testing::message_of<BadInput>([&] { pipeline.clip_grad_norm(1); }),
        "0.bias is cut over ranks that compute it together, and the norm to clip by is of the "
        "whole model: pass their communicator as PipelineOptions::tensor (Grid::tensor() has "
        "it)");
    EXPECT_EQ(testing::message_of<BadInput>([&] { pipeline.gather(); }),
              "0.bias is cut over ranks that compute it together, and gathered it is whole: pass "
              "their communicator as PipelineOptions::tensor (Grid::tensor() has it)");
  });
}

TEST(PipelineOfCutLayers, OtherRanksThanTheirsAreRefused) {
  run_grid([](Grid& grid, const TensorGroup& group) {
    const PipelineOptions options{.random = false, .tensor = &grid.data()};
    EXPECT_EQ(testing::message_of<BadInput>(
                  [&] { Pipeline(grid.pipeline(), make_cut(group), loss_of, options); }),
              "0.bias has 6 of 12 here, and rank 0 of the 1 of PipelineOptions::tensor would have "
              "12: pass the communicator of the ranks that its layers are cut over");
  });
}

TEST(PipelineOfWholeLayers, NeedsNoOtherRanks) {
  testing::run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    Pipeline pipeline(job, make_whole(), loss_of, {.random = false});
    const Data data;
    pipeline.step(data.inputs[0], data.targets[0]);
    EXPECT_GT(pipeline.clip_grad_norm(1), 0);
    EXPECT_EQ(pipeline.gather().size(), job.rank() == 0 ? 10 : 0);
  });
}

}  // namespace
}  // namespace asup::parallel
