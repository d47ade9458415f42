#include "asup/distribute/distribute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "asup/asup.h"
#include "asup/base/error.h"
#include "asup/net/transport/inproc/wire.h"
#include "asup/ps/serve.h"
#include "tests/support/join_options.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::message_of;
using asup::testing::run_ranks;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;

torch::nn::Linear row(const torch::Tensor& weight) {
  torch::nn::Linear linear(torch::nn::LinearOptions(3, 1).bias(false));
  torch::NoGradGuard no_grad;
  linear->weight.copy_(weight);
  return linear;
}

// Each rank has half of the data, and all end as one process would.
TEST(Distribute, TakesReferencesHoldersAndSharedPointers) {
  const auto data = torch::arange(24, torch::kFloat32).view({8, 3}) / 24;
  const auto first = torch::tensor({{0.5F, -1.0F, 2.0F}});
  auto alone = row(first);
  torch::optim::SGD optimizer(alone->parameters(), 0.1);
  alone->forward(data).square().mean().backward();
  optimizer.step();

  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto part = data.narrow(0, job.rank() * 4, 4);
    const auto train = [&](torch::nn::Linear linear, auto distribute_it) {
      torch::optim::SGD optimizer(linear->parameters(), 0.1);
      const auto replica = distribute_it(linear, optimizer);
      linear->forward(part).square().mean().backward();
      EXPECT_EQ(replica->step(), StepResult::applied);
      EXPECT_TRUE(torch::allclose(linear->weight, alone->weight, 1e-6, 1e-7));
      EXPECT_EQ(replica->stats().steps, 1u);
      replica->check_equal();
      EXPECT_EQ(replica->servers(), nullptr);
    };
    // Rank 0's weights become everybody's.
    const auto fresh = [&] { return row(job.rank() == 0 ? first : torch::zeros({1, 3})); };
    train(fresh(), [&](auto& model, auto& optimizer) { return distribute(job, model, optimizer); });
    train(fresh(),
          [&](auto& model, auto& optimizer) { return distribute(job, *model, optimizer); });
    train(fresh(), [&](auto& model, auto& optimizer) {
      auto shared = model.ptr();
      return distribute(job, shared, optimizer, AllReduce{.buffers = BufferSync::average});
    });
  });
}

// `asup run --call-timeout`: rank 1 does not come before rank 0 has given it up.
TEST(Distribute, TheJobsTimeoutIsThatOfAStep) {
  net::InprocHub hub;
  net::JoinOptions options = asup::testing::join_options(2, net::LinkKind::inproc, 0);
  options.hub = &hub;
  options.call_timeout = Seconds(2);
  std::promise<void> given_up;
  const auto train = [&](int rank) {
    net::JoinOptions mine = options;
    mine.rank = rank;
    Job job = Job::join(mine);
    auto model = row(torch::zeros({1, 3}));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const auto replica = distribute(job, model, optimizer, AllReduce{});
    if (rank == 1) return given_up.get_future().wait();
    EXPECT_THAT(message_of<JobFailed>([&] {
                  model->forward(torch::ones({1, 3})).sum().backward();
                }),
                HasSubstr("rank 1"));
    given_up.set_value();
  };
  std::thread other(train, 1);
  train(0);
  other.join();
}

TEST(Distribute, ThroughServers) {
  const auto data = torch::arange(24, torch::kFloat32).view({8, 3}) / 24;
  const auto first = torch::tensor({{0.5F, -1.0F, 2.0F}});
  auto alone = row(first);
  torch::optim::SGD optimizer(alone->parameters(), 0.1);
  alone->forward(data).square().mean().backward();
  optimizer.step();
  const auto body = [&](Job& job) {
    if (job.is_server()) return ps::serve(job);
    auto model = row(job.rank() == 0 ? first : torch::zeros({1, 3}));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const auto replica = distribute(job, model, optimizer, ParameterServer{});
    model->forward(data.narrow(0, job.rank() * 4, 4)).square().mean().backward();
    EXPECT_EQ(replica->step(), StepResult::applied);
    EXPECT_TRUE(torch::allclose(model->weight, alone->weight, 1e-6, 1e-7));
    replica->check_equal();
  };
  run_ranks(3, net::LinkKind::shm, body, 1);
}

// A program keeps what its servers have, momentum too, and another run goes on with it.
TEST(Distribute, ProgramsSaveAndReportThroughServers) {
  const TemporaryFolder folder;
  const auto data = torch::arange(24, torch::kFloat32).view({8, 3}) / 24;
  const auto train = [&](Job& job, bool resume, int steps, const auto& then) {
    if (job.is_server()) return ps::serve(job);
    auto model = row(torch::tensor({{0.5F, -1.0F, 2.0F}}));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    if (resume) {
      torch::load(model, folder.file("model.pt"));
      torch::load(optimizer, folder.file("optimizer.pt"));
    }
    const auto replica = distribute(job, model, optimizer, Strategy(ParameterServer{}));
    ASSERT_NE(replica->servers(), nullptr);
    for (int step = 1; step <= steps; ++step) {
      optimizer.zero_grad();
      model->forward(data.narrow(0, job.rank() * 4, 4)).square().mean().backward();
      replica->step();
      if (step == 2) replica->gather_optimizer_state();
      if (job.rank() != 0) continue;
      if (step == 2) torch::save(model, folder.file("model.pt"));
      if (step == 2) torch::save(optimizer, folder.file("optimizer.pt"));
      then(*replica->servers(), model->weight);
    }
  };
  torch::Tensor whole, resumed;
  std::string report;
  const auto first = [&](Job& job) {
    train(job, false, 3, [&](ServerReplica& servers, const auto& weight) {
      report = servers.report();
      whole = weight.detach().clone();
    });
  };
  run_ranks(3, net::LinkKind::shm, first, 1);
  EXPECT_THAT(report, HasSubstr("\"updates\":3"));
  const auto second = [&](Job& job) {
    train(job, true, 1,
          [&](ServerReplica&, const auto& weight) { resumed = weight.detach().clone(); });
  };
  run_ranks(3, net::LinkKind::tcp, second, 1);
  EXPECT_TRUE(torch::equal(whole, resumed));
}

TEST(Distribute, WhereWorkersStepOnTheirOwn) {
  run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    auto model = row(torch::zeros({1, 3}));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const auto replica = distribute(job, model, optimizer, LocalSgd{.every = 2});
    const auto step = [&](float value) {
      torch::NoGradGuard no_grad;
      model->weight.fill_(value);
      replica->describe_batch(job.rank() == 0 ? 1 : 3, 0);
      replica->step();
      return model->weight[0][0].item<float>();
    };
    EXPECT_EQ(step(job.rank()), job.rank());
    EXPECT_EQ(step(job.rank()), 0.75F);
    replica->check_equal();
    step(job.rank());
    replica->synchronize();
    replica->check_equal();
    EXPECT_EQ(replica->stats().merges, 2u);
    EXPECT_FALSE(replica->keeps_own_optimizer());
    EXPECT_EQ(replica->state().common.size(), 1u);
  });
}

TEST(Distribute, RefusesAStrategyThatCannotWork) {
  run_ranks(1, net::LinkKind::inproc, [](Job& job) {
    torch::nn::Linear model(3, 1);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const auto refusal = [&](const Strategy& strategy) {
      return message_of<BadInput>([&] { distribute(job, model, optimizer, strategy); });
    };
    EXPECT_THAT(refusal(ParameterServer{}), HasSubstr("start it with asup run --servers 1"));
    EXPECT_THAT(refusal(AdPsgd{}), HasSubstr("takes 2 workers at least, and there is 1"));
    EXPECT_THAT(refusal(Gossip{}), HasSubstr("takes 2 workers at least, and there is 1"));
    EXPECT_THAT(refusal(LocalSgd{.rounds = {.round_seconds = 1}}), HasSubstr("is for asup train"));
    EXPECT_THAT(refusal(LocalSgd{.local_after = {30, true}}),
                HasSubstr("a share of a run whose length is not known here"));
    EXPECT_THAT(refusal(DiLoCo{.every = 4, .fragments = 5}), HasSubstr("fragments = 5"));
    Strategy strategy;
    strategy.algorithm = "spiral";
    EXPECT_THAT(refusal(strategy), HasSubstr("spiral"));
  });
}

TEST(Distribute, HasNoUseForServersThatWouldSitIdle) {
  const auto body = [](Job& job) {
    if (job.is_server()) return job.wait_for_workers_to_leave();
    torch::nn::Linear model(3, 1);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    EXPECT_THAT(message_of<BadInput>([&] { distribute(job, model, optimizer); }),
                HasSubstr("this job has 1 servers, and sync = allreduce has no use for them"));
  };
  run_ranks(2, net::LinkKind::inproc, body, 1);
}

}  // namespace
}  // namespace asup
