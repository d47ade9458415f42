#include "asup/train/distribute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "asup/asup.h"
#include "asup/base/error.h"
#include "asup/ps/serve.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace asup {
namespace {

using asup::testing::message_of;
using asup::testing::run_ranks;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;

net::Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Strategy, VariablesGoOverTheFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("strategy.toml", "buffers = \"average\"\nbucket-mb = 4\n");
  const auto strategy = Strategy::from(
      environment({{"ASUP_STRATEGY", file}, {"ASUP_BUCKET_MB", "8"}, {"ASUP_TIMEOUT", "30"}}));
  EXPECT_EQ(strategy.buffers, "average");
  EXPECT_EQ(strategy.bucket_mb, 8);
  EXPECT_EQ(strategy.timeout.count(), 30);
  EXPECT_EQ(Strategy::from(environment({})).bucket_mb, 25);
}

TEST(Strategy, MistakesAreNamed) {
  const TemporaryFolder folder;
  const auto refusal = [](std::map<std::string, std::string> variables) {
    return message_of<BadInput>([&] { Strategy::from(environment(variables)); });
  };
  EXPECT_EQ(refusal({{"ASUP_BUFFERS", "locl"}}),
            "ASUP_BUFFERS: 'locl' is none of local, broadcast, average; did you mean 'local'?");
  EXPECT_THAT(refusal({{"ASUP_SYNC", "nothing"}}), HasSubstr("'nothing' is none of"));
  const auto file = folder.write("strategy.toml", "batch = 4\n");
  EXPECT_THAT(refusal({{"ASUP_STRATEGY", file}}),
              HasSubstr("batch is a setting of `asup train`, not of a strategy"));
}

TEST(Strategy, IsSettled) {
  const Strategy usual = Strategy{.sync = "server"}.settled();
  EXPECT_EQ(usual.pace, "bsp");
  EXPECT_TRUE(usual.survives_loss());
  const Strategy bounded = Strategy{.sync = "server", .pace = "ssp"}.settled();
  EXPECT_EQ(bounded.staleness, 4);
  const Strategy elastic = Strategy{.sync = "server", .merge = "easgd"}.settled();
  EXPECT_EQ(elastic.every, "4");
  EXPECT_EQ(elastic.elasticity, 0.9);
  EXPECT_THAT(message_of<BadInput>([] { Strategy{.sync = "server", .every = "8"}.settled(); }),
              HasSubstr("every = 8 has no effect: merge is none"));
  EXPECT_THAT(
      message_of<BadInput>([] {
        Strategy{.sync = "server", .pace = "asp", .merge = "mean", .compensation = 1}.settled();
      }),
      HasSubstr("compensation = 1 has no effect: merge is mean"));
  const Strategy adaptive = Strategy{.sync = "asup"}.settled();
  EXPECT_EQ(adaptive.sync, "server");
  EXPECT_EQ(adaptive.pace, "adaptive");
  EXPECT_EQ(adaptive.settled().pace, "adaptive") << "once more changes nothing";
  EXPECT_FALSE(Strategy{}.settled().needs_servers());
  EXPECT_FALSE(Strategy{}.settled().survives_loss());
  EXPECT_THAT(message_of<BadInput>([] { Strategy{.sync = "server", .pace = "fast"}.settled(); }),
              HasSubstr("pace = 'fast' is none of bsp, ssp, asp, adaptive"));
  EXPECT_THAT(message_of<BadInput>([] {
                Strategy::from(environment({{"ASUP_PACE", "asp"}}));
              }),
              HasSubstr("pace = asp has no effect"));
}

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
      return distribute(job, shared, optimizer, Strategy{.buffers = "average"});
    });
  });
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
    const auto replica = distribute(job, model, optimizer, Strategy{.sync = "server"});
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
  const auto train = [&](Job& job, const Strategy& strategy, int steps, const auto& then) {
    if (job.is_server()) return ps::serve(job);
    auto model = row(torch::tensor({{0.5F, -1.0F, 2.0F}}));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto replica = distribute(job, model, optimizer, strategy);
    ServerReplica* servers = replica->servers();
    ASSERT_NE(servers, nullptr);
    for (int step = 1; step <= steps; ++step) {
      optimizer.zero_grad();
      model->forward(data.narrow(0, job.rank() * 4, 4)).square().mean().backward();
      replica->step();
      if (job.rank() == 0) then(*servers, step, model->weight);
    }
  };
  torch::Tensor whole, resumed;
  std::string report;
  const auto first = [&](Job& job) {
    train(job, {.sync = "server"}, 3, [&](ServerReplica& servers, int step, const auto& weight) {
      if (step == 2) servers.save(folder.file("step-2"));
      if (step == 3) report = servers.report();
      whole = weight.detach().clone();
    });
  };
  run_ranks(3, net::LinkKind::shm, first, 1);
  EXPECT_THAT(report, HasSubstr("\"updates\":3"));
  const auto second = [&](Job& job) {
    const Strategy strategy{.sync = "server", .resume_servers = folder.file("step-2")};
    train(job, strategy, 1,
          [&](ServerReplica&, int, const auto& weight) { resumed = weight.detach().clone(); });
  };
  run_ranks(3, net::LinkKind::tcp, second, 1);
  EXPECT_TRUE(torch::equal(whole, resumed));
}

TEST(Distribute, WhereWorkersStepOnTheirOwn) {
  run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    auto model = row(torch::zeros({1, 3}));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const auto replica = distribute(job, model, optimizer, Strategy{.sync = "local", .every = "2"});
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
    EXPECT_THAT(refusal({.sync = "nothing"}), HasSubstr("not available in this version"));
    EXPECT_THAT(refusal({.sync = "server"}), HasSubstr("start it with asup run --servers 1"));
    EXPECT_THAT(refusal({.sync = "adpsgd"}), HasSubstr("use two workers or more"));
    EXPECT_THAT(refusal({.sync = "local", .round_seconds = 1}), HasSubstr("is for asup train"));
    EXPECT_THAT(refusal({.sync = "gossip"}), HasSubstr("this job has one worker"));
    EXPECT_THAT(refusal({.sync = "local", .local_after = "30%"}),
                HasSubstr("a share of a run whose length is not known here"));
    EXPECT_THAT(refusal({.pace = "asp"}), HasSubstr("pace = asp has no effect"));
    EXPECT_THAT(refusal({.resume_servers = "x"}), HasSubstr("resume_servers = x has no effect"));
    EXPECT_THAT(refusal({.bucket_mb = 0}), HasSubstr("bucket-mb"));
    EXPECT_THAT(refusal({.algorithm = "spiral"}), HasSubstr("spiral"));
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
