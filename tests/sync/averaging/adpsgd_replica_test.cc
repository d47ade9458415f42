// What averages of pairs promise beyond the conformance suite.
#include "asup/sync/averaging/adpsgd_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "asup/base/error.h"
#include "asup/sync/averaging/ad_psgd.h"
#include "tests/support/thrown.h"
#include "tests/sync/training.h"

namespace asup {
namespace {

using net::LinkKind;
using testing::distance;
using testing::fill;
using ::testing::HasSubstr;
using testing::loss_of;
using testing::message_of;
using testing::Mlp;
using testing::part;
using testing::snapshot;

TEST(AdPsgdWay, TheSeedReachesTheChoiceOfPartners) {
  const AdPsgd options{.every = 3, .graph = "random"};
  const AdPsgdOptions pairs = pair_options(options, Seconds(5), 7);
  EXPECT_EQ(pairs.seed, 7u);
  EXPECT_EQ(pairs.every, 3);
  EXPECT_EQ(pairs.graph, "random");
  EXPECT_EQ(pairs.patience, Seconds(5));
}

struct Stage {
  Job& job;
  Communicator& communicator;

  std::unique_ptr<Replica> make(torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                                const AdPsgdOptions& options = {}) const {
    return make_adpsgd_replica(communicator, net::workers_of(job), model, optimizer, options);
  }
};

void train_pairs(int ranks, LinkKind links, const std::function<void(const Stage&)>& body) {
  torch::set_num_threads(1);
  testing::run_ranks(ranks, links, [&](Job& job) {
    CommunicatorOptions options;
    options.timeout = Seconds(60);
    const auto communicator = make_communicator(job, options);
    body({job, *communicator});
  });
}

torch::optim::SGD sgd(torch::nn::Module& module, double lr) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(lr));
}

// Time for what must come sooner or later.
template <typename Done>
void wait_until(const Done& done) {
  const Deadline deadline = after(Seconds(120));
  while (!done()) {
    check(Clock::now() < deadline, "it did not come");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Models that differ and do not learn come together, step by step, and their mean stays.
TEST(AdPsgdReplica, ComesTogetherAtTheMean) {
  constexpr int kRanks = 3;
  Mlp mean;
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : mean.parameters()) parameter.zero_();
    for (int rank = 0; rank < kRanks; ++rank) {
      Mlp one;
      fill(one, 10 + static_cast<std::uint64_t>(rank));
      for (std::size_t i = 0; i < mean.parameters().size(); ++i)
        mean.parameters()[i].add_(one.parameters()[i], 1.0 / kRanks);
    }
  }
  for (const LinkKind links : {LinkKind::inproc, LinkKind::tcp}) {
    std::atomic<int> done = 0;
    train_pairs(kRanks, links, [&](const Stage& stage) {
      Mlp model;
      auto optimizer = sgd(model, 0);
      const auto replica = stage.make(model, optimizer);
      fill(model, 10 + static_cast<std::uint64_t>(stage.job.rank()));
      const double before = distance(snapshot(model), snapshot(mean));
      wait_until([&] { return replica->step(), replica->stats().merges >= 40; });
      ++done;
      wait_until([&] { return replica->step(), done == kRanks; });
      EXPECT_LT(distance(snapshot(model), snapshot(mean)), 0.05 * before);
      replica->synchronize();
      replica->check_equal();
      EXPECT_LT(distance(snapshot(model), snapshot(mean)), 1e-5);
      EXPECT_LT(*replica->stats().consensus_distance, 0.05);
      EXPECT_GT(replica->stats().bytes_moved, 40u * 4 * 400);
    });
  }
}

// Workers that take different numbers of steps, as fast as they can, learn together.
TEST(AdPsgdReplica, LearnsAtDifferentPaces) {
  train_pairs(2, LinkKind::shm, [](const Stage& stage) {
    Mlp model;
    auto optimizer = sgd(model, 0.1);
    const auto replica = stage.make(model, optimizer, {.graph = "random", .every = 2});
    const auto loss = [&] { return loss_of(model, Mlp::batch(0)).item<double>(); };
    const double before = loss();
    for (int step = 0; step < (stage.job.rank() == 0 ? 50 : 200); ++step) {
      optimizer.zero_grad();
      loss_of(model, part(Mlp::batch(0), stage.job.rank(), 2)).backward();
      replica->step();
    }
    replica->synchronize();
    replica->check_equal();
    EXPECT_LT(loss(), 0.9 * before);
    EXPECT_EQ(replica->stats().steps, stage.job.rank() == 0 ? 50u : 200u);
    EXPECT_TRUE(replica->keeps_own_optimizer());
  });
}

// So many steps with all samples in one process, which is what all-reduce does, or with this part.
std::vector<torch::Tensor> trained_alone(int steps, double lr, const testing::Batch& batch) {
  Mlp model;
  auto optimizer = sgd(model, lr);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss_of(model, batch).backward();
    optimizer.step();
  }
  return snapshot(model);
}

double loss_with(const std::vector<torch::Tensor>& parameters, const testing::Batch& batch) {
  torch::NoGradGuard no_grad;
  Mlp model;
  for (std::size_t i = 0; i < parameters.size(); ++i) model.parameters()[i].copy_(parameters[i]);
  return loss_of(model, batch).item<double>();
}

// Each worker has samples of its own, and would go its own way. With an average after each step,
// they stay together, and come to where all-reduce comes with all samples.
TEST(AdPsgdReplica, StaysTogetherAndLearnsWhatAllReduceDoes) {
  constexpr int kRanks = 3, kSteps = 100;
  constexpr double kLr = 0.1;
  const auto all = Mlp::batch(0);
  const auto reduced = trained_alone(kSteps, kLr, all);
  const double apart = distance(trained_alone(kSteps, kLr, part(all, 0, kRanks)),
                                trained_alone(kSteps, kLr, part(all, 1, kRanks)));
  const double before = loss_with(snapshot(Mlp()), all), least = loss_with(reduced, all);
  ASSERT_LT(least, 0.5 * before);
  std::atomic<int> done = 0;
  train_pairs(kRanks, LinkKind::shm, [&](const Stage& stage) {
    Mlp model;
    auto optimizer = sgd(model, kLr);
    const auto replica = stage.make(model, optimizer, {.graph = "random"});
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      optimizer.zero_grad();
      loss_of(model, part(all, stage.job.rank(), kRanks)).backward();
      replica->step();
      optimizer.zero_grad();  // steps without gradients only take in what partners bring
      wait_until([&] { return replica->step(), replica->stats().merges >= step; });
    }
    ++done;
    wait_until([&] { return replica->step(), done == kRanks; });
    replica->synchronize();
    EXPECT_LT(*replica->stats().consensus_distance, 0.2 * apart);
    EXPECT_LT(distance(snapshot(model), reduced), 0.3 * apart);
    EXPECT_LT(loss_with(snapshot(model), all), least + 0.15 * (before - least));
  });
}

TEST(AdPsgdReplica, RefusesWhatCannotWork) {
  train_pairs(2, LinkKind::inproc, [&](const Stage& stage) {
    Mlp doubles(16, torch::kFloat64);
    auto of_doubles = sgd(doubles, 0.1);
    EXPECT_THAT(message_of<BadInput>([&] { stage.make(doubles, of_doubles); }),
                HasSubstr("pairs average f32"));
    Mlp model;
    auto optimizer = sgd(model, 0.1);
    EXPECT_THAT(message_of<BadInput>([&] { stage.make(model, optimizer, {.every = 0}); }),
                HasSubstr("every 0 steps"));
    EXPECT_THAT(message_of<BadInput>([&] { stage.make(model, optimizer, {.graph = "0-5"}); }),
                HasSubstr("no rank 5"));
  });
  train_pairs(1, LinkKind::inproc, [&](const Stage& stage) {
    Mlp model;
    auto optimizer = sgd(model, 0.1);
    EXPECT_THAT(message_of<BadInput>([&] { stage.make(model, optimizer); }),
                HasSubstr("use two workers or more"));
  });
}

}  // namespace
}  // namespace asup
