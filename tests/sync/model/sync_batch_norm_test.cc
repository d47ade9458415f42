#include "asup/sync/model/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::numbers;
using testing::run_ranks;

constexpr std::int64_t kChannels = 5;

struct Shape {
  std::string name;
  std::vector<std::int64_t> sizes;  // of all ranks' batches together
  bool channels_last = false;
};

void PrintTo(const Shape& shape, std::ostream* stream) { *stream << shape.name; }

// Where the ranks' parts begin and end: unequal.
std::vector<std::int64_t> cuts(std::int64_t size, int ranks) {
  std::vector<std::int64_t> result = {0};
  for (int r = 1; r < ranks; ++r) result.push_back(size * r * r / (ranks * ranks) + 1);
  result.push_back(size);
  return result;
}

// What one BatchNorm does with everything.
struct Reference {
  torch::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, variance;
};

// A far-off mean makes sums of squares lose what they must not.
torch::Tensor input_of(const Shape& shape) {
  auto x = 2 * numbers(shape.sizes, 11) + 30;
  return shape.channels_last ? x.contiguous(torch::MemoryFormat::ChannelsLast) : x;
}

template <typename Norm>
void prepare(Norm& norm) {
  torch::NoGradGuard no_grad;
  if (!norm->weight.defined()) return;
  norm->weight.copy_(numbers({kChannels}, 12));
  norm->bias.copy_(numbers({kChannels}, 13));
}

Reference reference(const Shape& shape, bool affine, std::optional<double> momentum, int steps) {
  const auto options = torch::nn::BatchNormOptions(kChannels).affine(affine).momentum(momentum);
  torch::nn::BatchNorm2d norm(options);  // of any dimension, through its function
  prepare(norm);
  Reference result;
  const auto x = input_of(shape).set_requires_grad(true);
  for (int step = 1; step <= steps; ++step)
    result.output =
        torch::batch_norm(x * step, norm->weight, norm->bias, norm->running_mean, norm->running_var,
                          true, momentum.value_or(1.0 / step), options.eps(), false);
  (result.output * numbers(shape.sizes, 14)).sum().backward();
  result.input_gradient = x.grad();
  if (affine) result.weight_gradient = norm->weight.grad();
  if (affine) result.bias_gradient = norm->bias.grad();
  result.mean = norm->running_mean;
  result.variance = norm->running_var;
  return result;
}

void expect_close(const torch::Tensor& a, const torch::Tensor& b, const char* what) {
  const double scale = std::max(1.0, b.abs().max().item<double>());
  EXPECT_LT((a - b).abs().max().item<double>() / scale, 1e-5) << what;
}

class SyncBatchNorms : public ::testing::TestWithParam<Shape> {
 protected:
  void compare(int ranks, bool affine, std::optional<double> momentum, int steps) {
    const Shape& shape = GetParam();
    const Reference expected = reference(shape, affine, momentum, steps);
    const auto begin = cuts(shape.sizes[0], ranks);
    std::mutex mutex;
    torch::Tensor weight_gradient, bias_gradient;
    torch::set_num_threads(1);
    run_ranks(ranks, LinkKind::inproc, [&](Job& job) {
      std::shared_ptr<Communicator> communicator = make_communicator(job);
      SyncBatchNorm norm(
          SyncBatchNormOptions(kChannels, communicator).affine(affine).momentum(momentum));
      prepare(norm);
      const auto r = static_cast<std::size_t>(job.rank());
      const auto mine = [&](const torch::Tensor& all) {
        return all.narrow(0, begin[r], begin[r + 1] - begin[r]);
      };
      const auto x = mine(input_of(shape)).detach().set_requires_grad(true);
      torch::Tensor y;
      for (int step = 1; step <= steps; ++step) y = norm(x * step);
      (y * mine(numbers(shape.sizes, 14))).sum().backward();

      expect_close(y, mine(expected.output), "output");
      expect_close(x.grad(), mine(expected.input_gradient), "gradient of the input");
      expect_close(norm->running_mean, expected.mean, "running mean");
      expect_close(norm->running_var, expected.variance, "running variance");
      if (!affine) return;
      std::lock_guard lock(mutex);
      const auto add = [](torch::Tensor& sum, const torch::Tensor& part) {
        sum = sum.defined() ? sum + part : part.clone();
      };
      add(weight_gradient, norm->weight.grad());
      add(bias_gradient, norm->bias.grad());
    });
    if (!affine) return;
    expect_close(weight_gradient, expected.weight_gradient, "gradient of the weight");
    expect_close(bias_gradient, expected.bias_gradient, "gradient of the bias");
  }
};

TEST_P(SyncBatchNorms, EqualsOneBatchNormOfAllBatches) { compare(3, true, 0.1, 1); }
TEST_P(SyncBatchNorms, WithoutAffine) { compare(2, false, 0.1, 2); }
TEST_P(SyncBatchNorms, WithTheAverageOfAllBatches) { compare(2, true, std::nullopt, 3); }
TEST_P(SyncBatchNorms, OfOneRank) { compare(1, true, 0.1, 1); }

INSTANTIATE_TEST_SUITE_P(Shapes, SyncBatchNorms,
                         ::testing::Values(Shape{"NC", {12, kChannels}},
                                           Shape{"NCL", {9, kChannels, 7}},
                                           Shape{"NCHW", {9, kChannels, 4, 3}},
                                           Shape{"NHWC", {9, kChannels, 4, 3}, true},
                                           Shape{"NCDHW", {9, kChannels, 2, 4, 3}}),
                         [](const auto& info) { return info.param.name; });

TEST(SyncBatchNorm, ARankWithoutSamplesTakesPart) {
  const Shape shape{"NCHW", {6, kChannels, 2, 2}};
  const Reference expected = reference(shape, true, 0.1, 1);
  run_ranks(2, LinkKind::inproc, [&](Job& job) {
    std::shared_ptr<Communicator> communicator = make_communicator(job);
    SyncBatchNorm norm(SyncBatchNormOptions(kChannels, communicator));
    prepare(norm);
    const std::int64_t size = job.rank() == 0 ? 6 : 0;
    const auto x = input_of(shape).narrow(0, 0, size).detach().set_requires_grad(true);
    const auto y = norm(x);
    (y * numbers(shape.sizes, 14).narrow(0, 0, size)).sum().backward();
    EXPECT_EQ(y.size(0), size);
    expect_close(norm->running_var, expected.variance, "running variance");
    if (size > 0) {
      expect_close(x.grad(), expected.input_gradient, "gradient of the input");
    } else {
      EXPECT_EQ(norm->weight.grad().abs().sum().item<double>(), 0);
    }
  });
}

TEST(SyncBatchNorm, EvaluationIsBatchNormAndNeedsNobody) {
  run_ranks(2, LinkKind::inproc, [](Job& job) {
    std::shared_ptr<Communicator> communicator = make_communicator(job);
    SyncBatchNorm norm(SyncBatchNormOptions(kChannels, communicator));
    prepare(norm);
    norm(numbers({4, kChannels}, 20 + job.rank()));
    norm->eval();
    if (job.rank() == 1) return;
    const auto x = numbers({3, kChannels}, 21);
    const auto expected = torch::batch_norm(x, norm->weight, norm->bias, norm->running_mean,
                                            norm->running_var, false, 0, 1e-5, false);
    EXPECT_TRUE(torch::equal(norm(x), expected));
  });
}

TEST(SyncBatchNorm, LoadsWhatBatchNormSaved) {
  run_ranks(1, LinkKind::inproc, [](Job& job) {
    torch::nn::BatchNorm2d plain(kChannels);
    prepare(plain);
    plain(numbers({4, kChannels, 2, 2}, 22));
    std::stringstream file;
    torch::save(plain, file);
    SyncBatchNorm norm(SyncBatchNormOptions(kChannels, make_communicator(job)));
    torch::load(norm, file);
    EXPECT_TRUE(torch::equal(norm->running_mean, plain->running_mean));
    EXPECT_TRUE(torch::equal(norm->weight, plain->weight));
    EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
  });
}

TEST(SyncBatchNorm, RefusesWhatItCannotDo) {
  EXPECT_THROW(SyncBatchNorm(SyncBatchNormOptions(kChannels, nullptr)), BadInput);
  run_ranks(1, LinkKind::inproc, [](Job& job) {
    SyncBatchNorm norm(SyncBatchNormOptions(kChannels, make_communicator(job)));
    EXPECT_THROW(norm(numbers({4, kChannels + 1}, 1)), Error);
    EXPECT_THROW(norm(numbers({kChannels}, 1)), Error);
    EXPECT_THROW(norm(numbers({1, kChannels}, 1)), Error);  // one value has no variance
    const auto x = numbers({4, kChannels}, 1).set_requires_grad(true);
    EXPECT_THROW(norm(x).sum().backward({}, {}, true), Error);
  });
}

// More values a channel than fp16 can count.
TEST(SyncBatchNorm, StatisticsOf16BitsAreExact) {
  run_ranks(2, LinkKind::inproc, [](Job& job) {
    const std::shared_ptr<Communicator> communicator = make_communicator(job);
    SyncBatchNorm norm(SyncBatchNormOptions(kChannels, communicator).momentum(1.0));
    const torch::Tensor input = 2 * numbers({2, kChannels, 200, 200}, 3) + 5;
    for (const auto type : {torch::kHalf, torch::kBFloat16}) {
      const torch::Tensor output = norm->forward(input.to(type));
      EXPECT_EQ(output.scalar_type(), type);
      const torch::Tensor exact = input.transpose(0, 1).flatten(1);
      EXPECT_TRUE(norm->running_mean.allclose(exact.mean(1), 1e-2, 1e-2));
      EXPECT_TRUE(norm->running_var.allclose(exact.var(1), 1e-2, 1e-2));
    }
  });
}

}  // namespace
}  // namespace asup
