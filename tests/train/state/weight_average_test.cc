#include "asup/train/state/weight_average.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::train {
namespace {

using asup::testing::run_ranks;

struct Net : torch::nn::Module {
  Net() {
    weight = register_parameter("weight", torch::zeros({2}));
    mean = register_buffer("mean", torch::zeros({2}));
    count = register_buffer("count", torch::zeros({1}, torch::kInt64));
  }
  void become(double value) {
    torch::NoGradGuard no_grad;
    weight.fill_(value);
    mean.fill_(10 * value);
    count.fill_(static_cast<std::int64_t>(value));
  }
  torch::Tensor weight, mean, count;
};

double first(const torch::Tensor& tensor) { return tensor[0].item<double>(); }

TEST(WeightAverage, FollowsTheModelByItsDecayAndFasterAtFirst) {
  Net net;
  WeightAverage average(net, 0.5);
  double wanted = 0;
  for (int step = 1; step <= 20; ++step) {
    net.become(step);
    average.update(step);
    const double decay = std::min(0.5, (1.0 + step) / (10.0 + step));
    wanted += (1 - decay) * (step - wanted);
    EXPECT_NEAR(first(average.tensors()[0].tensor), wanted, 1e-4);
    EXPECT_NEAR(first(average.buffers()[0].tensor), 10 * wanted, 1e-3);
  }
  EXPECT_EQ(average.tensors().size(), 2u);  // counts have no average
}

TEST(WeightAverage, TakesTheModelsPlaceForAWhile) {
  run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    const auto communicator = make_communicator(job);
    Net net;
    WeightAverage average(net, 0.5);
    net.become(4 + job.rank());
    average.update(1000);  // half of the way: 2 and 2.5
    const auto used = [&](bool models_differ) {
      std::pair<double, double> seen;
      average.with_mean(*communicator, models_differ, [&] {
        seen = {first(net.weight), first(net.mean)};
        EXPECT_EQ(net.count.item<std::int64_t>(), 4);  // rank 0's
      });
      return seen;
    };
    EXPECT_EQ(used(true), (std::pair<double, double>(2.25, 22.5)));
    EXPECT_EQ(used(false), (std::pair<double, double>(2 + 0.5 * job.rank(), 22.5)));
    EXPECT_EQ(first(net.weight), 4 + job.rank());
    EXPECT_EQ(first(net.mean), 40 + 10 * job.rank());
    EXPECT_EQ(net.count.item<std::int64_t>(), 4 + job.rank());
    EXPECT_EQ(first(average.tensors()[0].tensor), 2 + 0.5 * job.rank());
    average.merge(*communicator);
    EXPECT_EQ(first(average.tensors()[0].tensor), 2.25);
  });
}

}  // namespace
}  // namespace asup::train
