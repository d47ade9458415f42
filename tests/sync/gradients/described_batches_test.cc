// Gradients that all-reduce weighs by the samples that ranks describe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "asup/base/error.h"
#include "tests/sync/gradients/all_reduce_training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::Batch;
using testing::distance;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::Mlp;
using testing::sgd;
using testing::snapshot;
using testing::train_ranks;
using testing::trained_alone;

// This rank's part of 17, 5, 2 or 0 samples.
Batch uneven_part(const Batch& all, int rank) {
  const std::int64_t begin = std::array{0, 17, 22, 24}[static_cast<std::size_t>(rank)];
  const std::int64_t size = std::array{17, 5, 2, 0}[static_cast<std::size_t>(rank)];
  return {all.data.narrow(0, begin, size), all.target.narrow(0, begin, size)};
}

TEST(DescribedBatches, FollowOneProcess) {
  const auto expected = trained_alone<Mlp>(20);
  for (const LinkKind links : {LinkKind::inproc, LinkKind::tcp})
    train_ranks(4, links, [&](Communicator& communicator) {
      Mlp model;
      auto optimizer = sgd(model);
      const auto replica = make_all_reduce_replica(
          communicator, model, optimizer, {.bucket_bytes = 300, .first_bucket_bytes = 100});
      for (int step = 0; step < 20; ++step) {
        const Batch own = uneven_part(Mlp::batch(step), communicator.rank());
        optimizer.zero_grad();
        replica->describe_batch(static_cast<std::uint64_t>(own.data.size(0)), 0);
        if (own.data.size(0) > 0) loss_of(model, own).backward();
        replica->step();
      }
      EXPECT_LT(distance(snapshot(model), expected), 1e-6);
      replica->check_equal();
    });
}

// Two backwards in a step, each averaged.
TEST(DescribedBatches, AddUp) {
  train_ranks(2, LinkKind::inproc, [&](Communicator& communicator) {
    const double rank = communicator.rank();
    torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    torch::optim::SGD optimizer(model->parameters(), 1.0);
    const auto replica = make_all_reduce_replica(communicator, *model, optimizer);
    replica->describe_batch(communicator.rank() == 0 ? 1 : 3, 0);
    for (int i = 0; i < 2; ++i) (model->weight.sum() * (1 + rank)).backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 2 * (1 * 1 + 3 * 2) / 4.0f);
    replica->step();
  });
}

// What a rank is told that takes steps as `step` does it.
template <typename Step>
std::vector<std::string> complaints(int ranks, const Step& step) {
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  train_ranks(ranks, LinkKind::tcp, [&](Communicator& communicator) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    try {
      for (int i = 0; i < 3; ++i) {
        optimizer.zero_grad();
        step(*replica, communicator.rank(), loss_of(model, Mlp::batch(i)));
        replica->step();
      }
    } catch (const BadInput& error) {
      messages[static_cast<std::size_t>(communicator.rank())] = error.what();
    }
  });
  return messages;
}

TEST(DescribedBatches, AllRanksDescribeOrNone) {
  const auto messages = complaints(3, [](Replica& replica, int rank, const torch::Tensor& loss) {
    if (rank == 1) replica.describe_batch(8, 0);
    loss.backward();
  });
  EXPECT_THAT(messages, ::testing::Each(HasSubstr("some ranks described their batch and others "
                                                  "did not")));
}

TEST(DescribedBatches, WhereUnequalAreDescribedBeforeBackward) {
  const auto late = [](auto samples_of) {
    return complaints(2, [=](Replica& replica, int rank, const torch::Tensor& loss) {
      loss.backward();
      replica.describe_batch(samples_of(rank), 0);
    });
  };
  EXPECT_THAT(
      late([](int rank) { return rank == 0 ? 8u : 6u; }),
      ::testing::Each(HasSubstr("had 6 to 8 samples, and were described after backward()")));
  EXPECT_THAT(late([](int) { return 8u; }), ::testing::Each(""));
  const auto mixed = complaints(2, [](Replica& replica, int rank, const torch::Tensor& loss) {
    if (rank == 0) replica.describe_batch(8, 0);
    loss.backward();
    if (rank == 1) replica.describe_batch(8, 0);
  });
  EXPECT_NE(mixed[0], "");
  EXPECT_NE(mixed[1], "");
}

}  // namespace
}  // namespace asup
