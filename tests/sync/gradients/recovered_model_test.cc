// What a model has beside its weights, and what ranks know of their models, after a step in which a
// rank was lost.
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>

#include "asup/base/error.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "tests/sync/gradients/lost_rank.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::expect_same;
using testing::FailsHere;
using testing::kRanks;
using testing::loss_of;
using testing::Mlp;
using testing::part;
using testing::train_ranks;

// A model that has statistics of its batches.
class StatisticsOfAStep : public ::testing::Test {
 protected:
  struct Training {
    Training(Communicator& ranks, const AllReduceOptions& options) : rank(ranks.rank()) {
      testing::fill(*model, 1);
      replica = make_all_reduce_replica(ranks, *model, optimizer, options);
    }
    void backward(std::uint64_t seed, double times = 1) {
      optimizer.zero_grad();
      const auto x = testing::numbers({6, 4}, 3 * seed + static_cast<std::uint64_t>(rank));
      (times * model->forward(x).square().mean()).backward();
    }
    std::vector<torch::Tensor> statistics() const {
      std::vector<torch::Tensor> copies;
      for (const auto& buffer : model->buffers()) copies.push_back(buffer.clone());
      return copies;
    }

    const int rank;
    torch::nn::Sequential model = torch::nn::Sequential(
        torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 2));
    torch::optim::SGD optimizer{model->parameters(), 0.05};
    std::unique_ptr<Replica> replica;
  };
};

TEST_F(StatisticsOfAStep, AreWhatTheyWereWhereItIsTakenAgain) {
  for (const bool skipped_before : {false, true}) {
    std::barrier all_have_stepped(kRanks);
    train_ranks(kRanks, LinkKind::inproc, [&](Communicator& communicator) {
      Training training(communicator, {});
      training.backward(1, skipped_before ? std::nan("") : 1);
      training.replica->step();
      all_have_stepped.arrive_and_wait();
      if (communicator.rank() == 2) return;
      const auto statistics = training.statistics();
      EXPECT_THROW(training.backward(2), JobFailed);
      EXPECT_FALSE(torch::equal(training.statistics().front(), statistics.front()));
      communicator.rebuild().or_throw();
      training.replica->recover_step();
      expect_same(training.statistics(), statistics);
    });
  }
}

TEST_F(StatisticsOfAStep, AreOneWhereTheyTravelAndItIsTakenOver) {
  std::barrier all_have_stepped(kRanks);
  std::vector<std::vector<torch::Tensor>> statistics(kRanks);
  train_ranks(kRanks, LinkKind::inproc, [&](Communicator& real) {
    const int rank = real.rank();
    FailsHere communicator(real);
    Training training(communicator, {.buffers = BufferSync::average});
    training.backward(1);
    training.replica->step();
    training.backward(2);
    if (rank == 1) {
      communicator.fail_at(2);  // that of floating points
      EXPECT_THROW(training.replica->step(), JobFailed);
    } else {
      training.replica->step();
    }
    all_have_stepped.arrive_and_wait();
    if (rank == 0) return;
    real.rebuild().or_throw();
    training.replica->recover_step();
    EXPECT_EQ(training.replica->stats().steps, 2u);
    statistics[static_cast<std::size_t>(rank)] = training.statistics();
  });
  expect_same(statistics[1], statistics[2]);
}

// A communicator that has its ranks believe that they are on devices of several kinds.
class OnSeveralDevices : public testing::WatchedCommunicator {
 public:
  explicit OnSeveralDevices(Communicator& real) : WatchedCommunicator(real, [](const Call&) {}) {}

  Outcome run(Call call) override {
    const Buffer output = call.output;
    const bool asks = call.op == ReduceOp::max && output.dtype == Dtype::f64 && output.count == 2;
    const Outcome outcome = WatchedCommunicator::run(std::move(call));
    if (asks) *static_cast<double*>(output.data) += 1;
    return outcome;
  }
};

// Rank 1 has missed the step since all models were made one.
TEST(ModelsOnSeveralDevices, AreOneAgainWhereOneIsTakenOverByAll) {
  std::barrier all_have_exchanged(kRanks);
  train_ranks(kRanks, LinkKind::inproc, [&](Communicator& real) {
    const int rank = real.rank();
    OnSeveralDevices communicator(real);
    Mlp model;
    torch::optim::SGD optimizer(model.parameters(), 0.05);
    const auto replica = make_all_reduce_replica(communicator, model, optimizer);
    const auto backward = [&](std::uint64_t seed) {
      optimizer.zero_grad();
      loss_of(model, part(Mlp::batch(seed), rank, kRanks)).backward();
    };
    backward(0);
    replica->step();
    EXPECT_TRUE(replica->models_differ());
    replica->synchronize();
    EXPECT_FALSE(replica->models_differ());
    backward(1);
    if (rank != 1) replica->step();
    all_have_exchanged.arrive_and_wait();
    if (rank == 0) return;
    real.rebuild().or_throw();
    replica->recover_step();
    EXPECT_FALSE(replica->models_differ());
    replica->check_equal();
  });
}

}  // namespace
}  // namespace asup
