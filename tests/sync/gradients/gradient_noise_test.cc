// The noise scale that all-reduce tells, of samples whose gradients are drawn from a known
// distribution.
#include <gtest/gtest.h>

#include <array>

#include "tests/sync/gradients/all_reduce_training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::train_ranks;

constexpr std::int64_t kElements = 120;
constexpr double kGradient = 0.5, kDeviation = 2;  // of each element, of one sample
constexpr double kTruth = kDeviation * kDeviation / (kGradient * kGradient);

struct Vector : torch::nn::Module {
  Vector() { weight = register_parameter("weight", torch::zeros({kElements})); }
  torch::Tensor weight;
};

// The sum over samples of losses whose gradients are samples.
torch::Tensor loss_of(const Vector& model, std::int64_t samples, int rank, int step) {
  auto random = torch::make_generator<torch::CPUGeneratorImpl>(1000 * rank + step);
  const auto gradients =
      kGradient + kDeviation * torch::randn({samples, kElements}, random, torch::kFloat32);
  return torch::matmul(gradients, model.weight).sum();
}

// Steps of a model that does not move, of as many samples as `shares` says.
template <typename Step>
void expect_truth(std::span<const std::int64_t> shares, const Step& backward) {
  train_ranks(static_cast<int>(shares.size()), LinkKind::inproc, [&](Communicator& communicator) {
    Vector model;
    torch::optim::SGD optimizer(model.parameters(), 0.0);
    const auto replica =
        make_all_reduce_replica(communicator, model, optimizer, {.bucket_bytes = 100});
    EXPECT_EQ(replica->stats().noise_scale, std::nullopt);
    const std::int64_t samples = shares[static_cast<std::size_t>(communicator.rank())];
    for (int step = 0; step < 60; ++step) {
      optimizer.zero_grad();
      backward(*replica, loss_of(model, samples, communicator.rank(), step), samples);
      replica->step();
    }
    ASSERT_TRUE(replica->stats().noise_scale);
    EXPECT_NEAR(*replica->stats().noise_scale, kTruth, 0.1 * kTruth);
    double noise = *replica->stats().noise_scale, least = noise, most = noise;
    communicator.all_reduce(buffer_of(std::span(&least, 1)), ReduceOp::min).or_throw();
    communicator.all_reduce(buffer_of(std::span(&most, 1)), ReduceOp::max).or_throw();
    EXPECT_EQ(least, most) << "the same on all ranks";
  });
}

TEST(GradientNoise, OfDescribedBatchesIsThatOfTheSamples) {
  expect_truth(std::array<std::int64_t, 3>{4, 4, 4},
               [](Replica& replica, const torch::Tensor& loss, std::int64_t samples) {
                 replica.describe_batch(static_cast<std::uint64_t>(samples), 0);
                 (loss / samples).backward();
               });
}

TEST(GradientNoise, OfUnequalBatchesToo) {
  expect_truth(std::array<std::int64_t, 4>{2, 9, 4, 0},
               [](Replica& replica, const torch::Tensor& loss, std::int64_t samples) {
                 replica.describe_batch(static_cast<std::uint64_t>(samples), 0);
                 if (samples > 0) (loss / samples).backward();
               });
}

TEST(GradientNoise, OfGradientsThatAreWeighedAlready) {
  expect_truth(std::array<std::int64_t, 3>{2, 9, 4},
               [](Replica& replica, const torch::Tensor& loss, std::int64_t samples) {
                 replica.describe_weighed_batch(static_cast<std::uint64_t>(samples));
                 (loss / 5).backward();  // 15 samples of 3 ranks
               });
}

// Gradients add up in NoSync, and are one batch.
TEST(GradientNoise, OfPortionsThatAddUp) {
  expect_truth(std::array<std::int64_t, 2>{4, 4},
               [](Replica& replica, const torch::Tensor& loss, std::int64_t) {
                 replica.describe_weighed_batch(4);
                 {
                   const NoSync local(replica);
                   (loss / 16).backward({}, /*retain_graph=*/true);
                 }
                 (loss * 3 / 16).backward();
               });
}

// A few steps of two ranks, which tell nothing.
template <typename Step>
void expect_unknown(const Step& backward) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    Vector model;
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      backward(*replica, [&] { loss_of(model, 4, communicator.rank(), step).backward(); });
      replica->step();
    }
    EXPECT_EQ(replica->stats().noise_scale, std::nullopt);
  });
}

TEST(GradientNoise, IsUnknownWhereNobodySaysOfHowManySamples) {
  expect_unknown([](Replica&, const auto& backward) { backward(); });
}

// Averages of one backward are in what leaves with the next.
TEST(GradientNoise, IsNotTakenFromStepsOfTwoBackwards) {
  expect_unknown([](Replica& replica, const auto& backward) {
    replica.describe_weighed_batch(8);
    backward();
    backward();
  });
}

}  // namespace
}  // namespace asup
