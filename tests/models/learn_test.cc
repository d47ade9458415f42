// The pieces together, as a single process trains: real images in sharded batches through the
// prefetcher into the cnn.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "asup/data/dataset.h"
#include "asup/data/prefetch.h"
#include "asup/data/sharding.h"
#include "asup/models/compute_path.h"
#include "asup/models/model.h"

namespace asup::models {
namespace {

using data::Split;

constexpr std::size_t kBatch = 128;
constexpr double kRate = 0.05;

// Rises over the first twentieth, then falls to nothing along a cosine.
double rate_at(std::size_t step, std::size_t steps) {
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  const double warm = std::min(1.0, (done + 1.0 / static_cast<double>(steps)) * 20);
  return kRate * warm * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

// As one worker of `workers`, with its part of the data.
void train(Model& model, const data::Dataset& dataset, int workers) {
  const data::ShardedBatches batches(dataset.size(), 1, 0, workers,
                                     kBatch * static_cast<std::size_t>(workers),
                                     data::Remainder::drop);
  torch::optim::SGD optimizer(model.parameters(),
                              torch::optim::SGDOptions(kRate).momentum(0.9).weight_decay(5e-4));
  std::size_t step = 0;
  data::Prefetcher prefetcher(dataset, batches, 0);
  while (const auto batch = prefetcher.next()) {
    auto& group = static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options());
    group.lr(rate_at(step++, batches.steps_per_epoch()));
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model.forward(batch->input), batch->target).backward();
    optimizer.step();
  }
}

double accuracy(Model& model, const data::Dataset& dataset) {
  torch::NoGradGuard no_grad;
  model.eval();
  const data::ShardedBatches batches(dataset.size(), 0, 0, 1, 500, data::Remainder::keep, false);
  data::Prefetcher prefetcher(dataset, batches, 0);
  std::int64_t right = 0;
  while (const auto batch = prefetcher.next())
    right += model.forward(batch->input).argmax(1).eq(batch->target).sum().item<std::int64_t>();
  return static_cast<double>(right) / static_cast<double>(dataset.size());
}

TEST(Cnn, LearnsFashionMnist) {
  const auto train_set = data::open_dataset("fashion-mnist", Split::train);
  const auto test_set = data::open_dataset("fashion-mnist", Split::test);
  torch::manual_seed(1);
  const auto model = make_model("cnn", {});
  const std::vector<std::int64_t> some{0, 1, 2, 3, 4, 5, 6, 7};
  std::puts(measure_compute_path(*model, train_set->get(some), {.precision = Precision::fp32})
                .describe()
                .c_str());
  train(*model, *train_set, 4);
  const double result = accuracy(*model, *test_set);
  std::printf("test accuracy %.2f %%\n", 100 * result);
  EXPECT_GT(result, 0.76);
}

}  // namespace
}  // namespace asup::models
