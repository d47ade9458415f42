// What a program can do wrong with a replica: each is noticed, and what is right is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "asup/asup.h"
#include "asup/base/error.h"
#include "asup/distribute/ways.h"
#include "asup/net/transport/inproc/wire.h"
#include "asup/ps/serve.h"
#include "tests/support/join_options.h"
#include "tests/support/logged.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::logged;
using asup::testing::message_of;
using asup::testing::run_ranks;
using ::testing::HasSubstr;
using ::testing::Not;

struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(1);
    first = register_module("first", torch::nn::Linear(3, 4));
    second = register_module("second", torch::nn::Linear(4, 1));
  }
  torch::Tensor loss(const torch::Tensor& x) {
    return second->forward(torch::tanh(first->forward(x))).square().mean();
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

torch::Tensor data_of(const Job& job) {
  return torch::arange(12, torch::kFloat32).view({4, 3}) / (12 + job.rank());
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Net&)>;
const std::vector<MakeOptimizer> kOptimizers{
    [](Net& net) { return std::make_unique<torch::optim::SGD>(net.parameters(), 0.1); },
    [](Net& net) { return std::make_unique<torch::optim::Adam>(net.parameters(), 0.01); },
    [](Net& net) {
      return std::make_unique<optim::Lars>(net.parameters(), optim::LarsOptions(0.1).trust(1));
    }};

// Two workers, with a server where the way has one.
void with_two_workers(
    const Strategy& strategy, const MakeOptimizer& make,
    const std::function<void(Job&, Net&, torch::optim::Optimizer&, DistributedReplica&)>& train) {
  const int servers = strategy.capabilities().needs_servers ? 1 : 0;
  const auto body = [&](Job& job) {
    if (job.is_server()) return ps::serve(job);
    Net net;
    const auto optimizer = make(net);
    const auto replica = distribute(job, net, *optimizer, strategy);
    train(job, net, *optimizer, *replica);
  };
  run_ranks(2 + servers, net::LinkKind::inproc, body, servers);
}

class InEveryWay : public ::testing::TestWithParam<const Way*> {};

TEST_P(InEveryWay, AnOptimizersOwnStepIsNoticed) {
  for (const auto& make : kOptimizers)
    with_two_workers(
        Strategy(*GetParam()), make,
        [](Job& job, Net& net, torch::optim::Optimizer& optimizer, DistributedReplica& replica) {
          const auto x = data_of(job);
          net.loss(x).backward();
          replica.step();
          net.loss(x).backward();
          optimizer.step();
          const auto helps = HasSubstr("call replica->step() in place of optimizer.step()");
          EXPECT_THAT(message_of<Error>([&] { net.loss(x).backward(); }), helps);
          EXPECT_THAT(message_of<Error>([&] { replica.synchronize(); }), helps);
          EXPECT_THAT(message_of<Error>([&] { replica.step(); }), helps) << "both were called";
        });
}

TEST_P(InEveryWay, WhatIsRightIsNot) {
  with_two_workers(
      Strategy(*GetParam()), kOptimizers[0],
      [](Job& job, Net& net, torch::optim::Optimizer& optimizer, DistributedReplica& replica) {
        const auto x = data_of(job);
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          {  // weights are moved for a second look at the gradient, and back
            const NoSync first(replica);
            net.loss(x).backward();
            torch::NoGradGuard no_grad;
            for (auto& parameter : net.parameters()) parameter.add_(1);
            for (auto& parameter : net.parameters()) parameter.sub_(1);
          }
          net.loss(x).backward();
          replica.clip_grad_norm(1);
          replica.step();
          torch::NoGradGuard no_grad;
          net.first->weight.clamp_(-1, 1);  // after the step, as some losses ask for
        }
        optimizer.zero_grad();
        net.loss(x).backward();
        optimizer.zero_grad();  // a batch that is thrown away
        replica.synchronize();
        replica.check_equal();
        replica.with_mean_model([&] { EXPECT_GE(net.loss(x).item<float>(), 0); });
      });
}

// One that learns again in between goes on.
TEST_P(InEveryWay, ProgramsThatDivergeAreToldSo) {
  with_two_workers(
      Strategy(*GetParam()), kOptimizers[0],
      [](Job& job, Net& net, torch::optim::Optimizer& optimizer, DistributedReplica& replica) {
        const auto step = [&](float factor) {
          optimizer.zero_grad();
          (factor * net.loss(data_of(job))).backward();
          replica.step();
        };
        const float nan = std::numeric_limits<float>::quiet_NaN();
        for (int i = 0; i < 9; ++i) step(nan);
        step(1);
        for (int i = 0; i < 9; ++i) step(nan);
        EXPECT_EQ(replica.stats().skipped, 18u);
        EXPECT_THAT(message_of<Error>([&] { step(nan); }),
                    HasSubstr("the gradients of 10 steps in succession were infinite or NaN, and "
                              "the steps were skipped: training has diverged"));
        replica.synchronize();
        EXPECT_TRUE(net.first->weight.isfinite().all().item<bool>());
      });
}

// One that learns now and then does not get anywhere.
TEST_P(InEveryWay, ProgramsThatSkipMostStepsAreToldSo) {
  with_two_workers(
      Strategy(*GetParam()), kOptimizers[0],
      [](Job& job, Net& net, torch::optim::Optimizer& optimizer, DistributedReplica& replica) {
        const auto step = [&](int i) {
          const float factor = i % 3 == 2 ? 1 : std::numeric_limits<float>::quiet_NaN();
          optimizer.zero_grad();
          (factor * net.loss(data_of(job))).backward();
          replica.step();
        };
        for (int i = 0; i < 19; ++i) step(i);
        EXPECT_EQ(replica.stats().skipped, 13u);
        EXPECT_THAT(message_of<Error>([&] { step(19); }),
                    HasSubstr("the gradients of 14 of the last 20 steps were infinite or NaN, and "
                              "the steps were skipped: training has diverged"));
        step(20);  // with a lower learning rate, say
        replica.synchronize();
        EXPECT_TRUE(net.first->weight.isfinite().all().item<bool>());
      });
}

INSTANTIATE_TEST_SUITE_P(Misuse, InEveryWay, ::testing::ValuesIn(ways().begin(), ways().end()),
                         [](const auto& way) { return std::string(way.param->name); });

std::vector<Strategy> ways_that_differ_between_steps() {
  return {LocalSgd{.every = 100},
          DiLoCo{.every = 100},
          AdPsgd{},
          Gossip{},
          ParameterServer{.pace = Asp{}},
          ParameterServer{.pace = Ssp{4}},
          ParameterServer{.merge = Merge::easgd, .every = 2},
          ParameterServer{.pace = Asp{}, .merge = Merge::mean, .every = 2},
          Asup{}};
}

// Workers that have taken different numbers of steps, where they can, have one model after it.
TEST(Synchronize, MakesModelsOneInEveryWay) {
  for (const Strategy& strategy : ways_that_differ_between_steps()) {
    SCOPED_TRACE(strategy.name());
    with_two_workers(
        strategy, kOptimizers[0],
        [](Job& job, Net& net, torch::optim::Optimizer& optimizer, DistributedReplica& replica) {
          for (int step = 0; step < 3; ++step) {
            optimizer.zero_grad();
            net.loss(data_of(job)).backward();
            replica.step();
          }
          EXPECT_TRUE(replica.has_moved());
          replica.with_mean_model([&] { replica.check_equal(); });
          replica.synchronize();
          EXPECT_FALSE(replica.has_moved());
          EXPECT_FALSE(replica.models_differ());
          replica.check_equal();
          optimizer.zero_grad();
          net.loss(data_of(job)).backward();
          replica.step();  // training goes on
        });
  }
}

TEST(Loss, AnOptimizerWhoseStateNobodyCouldTakeOverIsRefusedAtTheBegin) {
  net::JoinOptions options = asup::testing::join_options(1, net::LinkKind::inproc, 0);
  net::InprocHub hub;
  options.hub = &hub;
  options.rank = 0;
  options.goes_on_after_loss = true;
  Job job = Job::join(options);
  Net net;
  torch::optim::LBFGS unknown(net.parameters());
  EXPECT_THAT(message_of<BadInput>([&] { distribute(job, net, unknown, AllReduce{}); }),
              HasSubstr("nothing is known of that of torch::optim::LBFGS. Leave --on-loss out"));
  torch::optim::Adam known(net.parameters());
  const auto replica = distribute(job, net, known, AllReduce{});
  net.loss(data_of(job)).backward();
  EXPECT_EQ(replica->step(), StepResult::applied);
}

TEST(End, ModelsThatWereNotMergedAreSaid) {
  const auto train = [](bool synchronizes) {
    with_two_workers(
        DiLoCo{.every = 100}, kOptimizers[0],
        [&](Job& job, Net& net, torch::optim::Optimizer&, DistributedReplica& replica) {
          net.loss(data_of(job)).backward();
          replica.step();
          if (synchronizes) replica.synchronize();
        });
  };
  EXPECT_THAT(logged([&] { train(false); }),
              HasSubstr("Call replica->synchronize() after the last step"));
  EXPECT_THAT(logged([&] { train(true); }), Not(HasSubstr("synchronize")));
}

TEST(End, AnOptimizersOwnLastStepIsSaid) {
  const auto text = logged([&] {
    with_two_workers(
        AllReduce{}, kOptimizers[0],
        [&](Job& job, Net& net, torch::optim::Optimizer& optimizer, DistributedReplica&) {
          net.loss(data_of(job)).backward();
          optimizer.step();
        });
  });
  EXPECT_THAT(text, HasSubstr("replica->step() in place of optimizer.step()"));
}

}  // namespace
}  // namespace asup
