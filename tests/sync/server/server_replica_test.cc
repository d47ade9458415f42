#include "asup/sync/server/server_replica.h"

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>

#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"
#include "tests/support/thrown.h"
#include "tests/sync/replica_conformance.h"
#include "tests/sync/server_training.h"

namespace asup::testing {
namespace {

using net::LinkKind;
using ::testing::HasSubstr;

// Several buckets even for a small model.
const ServerReplicaOptions kSmallBuckets{.bucket_bytes = 600, .first_bucket_bytes = 100};

const ReplicaWay kServer{
    .name = "server",
    .run =
        [](int ranks, LinkKind links, const std::function<void(const Trainee&)>& body) {
          train_with_servers(ranks, 2, links, [&](const ServerStage& stage) {
            body({stage.rank, [&](auto& module, auto& optimizer) {
                    return stage.make(module, optimizer, kSmallBuckets);
                  }});
          });
        },
    .skips_unused = false};

INSTANTIATE_TEST_SUITE_P(Server, ReplicaConformance, ::testing::ValuesIn(replica_cases(kServer)),
                         name_of_case);

// Workers step by themselves, each with an optimizer of its own, and are averaged.
const ReplicaWay kMerge{
    .name = "merge",
    .run =
        [](int ranks, LinkKind links, const std::function<void(const Trainee&)>& body) {
          train_with_servers(ranks, 2, links, [&](const ServerStage& stage) {
            body({stage.rank, [&](auto& module, auto& optimizer) {
                    return stage.make(module, optimizer, {.merge = Merge::mean});
                  }});
          });
        },
    .follows_one_process = false};

// Of three, the mean of equal numbers may be another by its last bit.
INSTANTIATE_TEST_SUITE_P(Merge, ReplicaConformance,
                         ::testing::Values(ReplicaCase{kMerge, LinkKind::inproc, 1},
                                           ReplicaCase{kMerge, LinkKind::shm, 2},
                                           ReplicaCase{kMerge, LinkKind::tcp, 4}),
                         name_of_case);

torch::optim::SGD sgd(torch::nn::Module& module, double lr = 0.05) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(lr));
}

// In step, servers do what torch's optimizers do with the whole batch.
using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;
template <typename Optimizer, typename Options>
MakeOptimizer maker(Options options) {
  return [options](std::vector<torch::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

struct OptimizerCase {
  std::string name;
  MakeOptimizer make;
};

class EveryOptimizer : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(EveryOptimizer, InStepFollowsOneProcess) {
  constexpr int kSteps = 100;
  Mlp alone;
  const auto lone = GetParam().make(alone.parameters());
  for (int step = 0; step < kSteps; ++step) {
    lone->zero_grad();
    loss_of(alone, Mlp::batch(step)).backward();
    lone->step();
  }
  train_with_servers(2, 2, LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    const auto optimizer = GetParam().make(model.parameters());
    const auto replica = stage.make(model, *optimizer, kSmallBuckets);
    for (int step = 0; step < kSteps; ++step) {
      optimizer->zero_grad();
      loss_of(model, part(Mlp::batch(step), stage.rank, 2)).backward();
      replica->step();
    }
    EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
    replica->check_equal();
  });
}

using torch::optim::SGDOptions;
INSTANTIATE_TEST_SUITE_P(
    Optimizers, EveryOptimizer,
    ::testing::Values(
        OptimizerCase{"sgd", maker<torch::optim::SGD>(SGDOptions(0.05).weight_decay(0.01))},
        OptimizerCase{"momentum", maker<torch::optim::SGD>(SGDOptions(0.02).momentum(0.9))},
        OptimizerCase{"nesterov",
                      maker<torch::optim::SGD>(SGDOptions(0.02).momentum(0.9).nesterov(true))},
        OptimizerCase{"rmsprop",
                      maker<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.001).eps(1e-3))},
        OptimizerCase{"adam",
                      maker<torch::optim::Adam>(torch::optim::AdamOptions(0.001).eps(1e-3))},
        OptimizerCase{"lars",
                      maker<optim::Lars>(optim::LarsOptions(0.5).weight_decay(0.1).trust(0.01))},
        OptimizerCase{"lamb", maker<optim::Lamb>(optim::LambOptions(0.01).weight_decay(0.1))},
        OptimizerCase{"adamw", maker<torch::optim::AdamW>(
                                   torch::optim::AdamWOptions(0.001).eps(1e-3).weight_decay(0.1))}),
    [](const auto& info) { return info.param.name; });

TEST(ServerReplica, ParametersMoveAndAreNotKeptTwice) {
  train_with_servers(1, 1, LinkKind::shm, [](const ServerStage& stage) {
    Mlp model(64);
    std::vector<void*> before;
    for (const auto& parameter : model.parameters()) before.push_back(parameter.data_ptr());
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer);
    std::size_t bytes = 0;
    const std::byte *begin = nullptr, *end = nullptr;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const torch::Tensor parameter = model.parameters()[i];
      EXPECT_NE(parameter.data_ptr(), before[i]);
      EXPECT_TRUE(parameter.is_leaf());
      const auto* at = static_cast<const std::byte*>(parameter.data_ptr());
      begin = begin ? std::min(begin, at) : at;
      end = std::max(end, at + parameter.nbytes());
      bytes += parameter.nbytes();
    }
    EXPECT_LE(static_cast<std::size_t>(end - begin), bytes + 64 * before.size());
  });
}

// The rule is the servers'; only learning rates travel with a push.
TEST(ServerReplica, OptionsThatAreChangedLaterAreRefused) {
  train_with_servers(1, 1, LinkKind::inproc, [](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer);
    static_cast<SGDOptions&>(optimizer.param_groups()[0].options()).lr(0.5);
    loss_of(model, Mlp::batch(0)).backward();
    EXPECT_EQ(replica->step(), StepResult::applied);
    static_cast<SGDOptions&>(optimizer.param_groups()[0].options()).weight_decay(0.5);
    loss_of(model, Mlp::batch(1)).backward();
    EXPECT_THAT(message_of<Error>([&] { replica->step(); }),
                HasSubstr("options of the optimizer other than the learning rate were changed"));
  });
}

TEST(ServerReplica, ASecondBackwardIsRefused) {
  train_with_servers(1, 1, LinkKind::inproc, [](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer);
    loss_of(model, Mlp::batch(0)).backward();
    EXPECT_THAT(message_of<Error>([&] { loss_of(model, Mlp::batch(1)).backward(); }),
                HasSubstr("second backward before step()"));
    EXPECT_THAT(message_of<Error>([&] { replica->finish_exchange(); }),
                HasSubstr("clip_grad_norm"));
  });
}

// At bsp the average is clipped, not what each worker pushes: by links that copy gradients, and by
// memory; on servers that each know a part of it.
TEST(ServerReplica, ClipsTheAverageOfAnUpdate) {
  for (const auto& [links, servers] :
       {std::pair(LinkKind::shm, 1), {LinkKind::tcp, 1}, {LinkKind::shm, 3}, {LinkKind::tcp, 2}})
    train_with_servers(2, servers, links, [](const ServerStage& stage) {
      Mlp model;
      auto optimizer = sgd(model, 1.0);
      const auto replica = stage.make(model, optimizer);
      const auto before = snapshot(model);
      {
        NoSync local(*replica);
        loss_of(model, Mlp::batch(0)).backward();
      }
      // Norms of 3 and of 1 in one direction: their average has 2, which is clipped to 1.5.
      const double elements = 16 * 8 + 16 + 16 * 16 + 16 + 4 * 16 + 4;
      for (auto& parameter : model.parameters())
        parameter.grad().fill_((stage.rank == 0 ? 3 : 1) / std::sqrt(elements));
      EXPECT_NEAR(replica->clip_grad_norm(1.5), stage.rank == 0 ? 3 : 1, 1e-5);
      replica->step();
      const double step = 1.5 / std::sqrt(elements);
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(torch::allclose(model.parameters()[i], before[i] - step, 1e-6, 1e-6));
    });
}

// Each worker clips its own gradient before it is pushed.
TEST(ServerReplica, GradientsMayBeChangedBeforeTheyLeave) {
  train_with_servers(2, 1, LinkKind::shm, [](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model, 1.0);
    const auto replica = stage.make(model, optimizer);
    const auto before = snapshot(model);
    {
      NoSync local(*replica);
      loss_of(model, Mlp::batch(stage.rank)).backward();
    }
    for (auto& parameter : model.parameters()) parameter.grad().fill_(stage.rank);
    replica->step();
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(torch::allclose(model.parameters()[i], before[i] - 0.5, 1e-6, 1e-6));
  });
}

// Each loss is the mean of 17, 5 or 2 samples, which pushes are weighed by.
TEST(ServerReplica, DescribedPartsFollowOneProcess) {
  constexpr int kSteps = 20;
  Mlp alone;
  auto lone = sgd(alone);
  for (int step = 0; step < kSteps; ++step) {
    lone.zero_grad();
    loss_of(alone, Mlp::batch(step)).backward();
    lone.step();
  }
  train_with_servers(3, 2, LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer, kSmallBuckets);
    const auto rank = static_cast<std::size_t>(stage.rank);
    const std::int64_t begin = std::array{0, 17, 22}[rank], size = std::array{17, 5, 2}[rank];
    for (int step = 0; step < kSteps; ++step) {
      const Batch all = Mlp::batch(step);
      optimizer.zero_grad();
      replica->describe_batch(static_cast<std::uint64_t>(size), 0);
      loss_of(model, {all.data.narrow(0, begin, size), all.target.narrow(0, begin, size)})
          .backward();
      replica->step();
    }
    EXPECT_LT(distance(snapshot(model), snapshot(alone)), 1e-6);
    replica->check_equal();
  });
}

TEST(ServerReplica, AllWorkersDescribeOrNone) {
  std::atomic<int> told = 0;
  train_with_servers(2, 1, LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model);
    auto options = kSmallBuckets;
    options.pace.kind = ps::pace::Kind::asp;
    const auto replica = stage.make(model, optimizer, options);
    const auto message = message_of<JobFailed>([&] {
      if (stage.rank == 1) replica->describe_batch(8, 0);
      loss_of(model, Mlp::batch(0)).backward();
      replica->step();
    });
    if (!message.empty()) {
      EXPECT_THAT(message, HasSubstr("call describe_batch() before every step() of all workers"));
      ++told;
    }
  });
  EXPECT_EQ(told, 1) << "whoever came second";
}

TEST(ServerReplica, GradientsThatAreNoNumbersAreSkippedAndCounted) {
  train_with_servers(2, 2, LinkKind::shm, [](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer, kSmallBuckets);
    const auto step = [&](bool poison) {
      optimizer.zero_grad();
      const float factor = poison ? std::numeric_limits<float>::quiet_NaN() : 1;
      (factor * loss_of(model, Mlp::batch(stage.rank))).backward();
      return replica->step();
    };
    EXPECT_EQ(step(false), StepResult::applied);
    const auto before = snapshot(model);
    EXPECT_EQ(step(true), StepResult::skipped);
    EXPECT_EQ(distance(snapshot(model), before), 0);
    EXPECT_EQ(step(stage.rank == 1), StepResult::applied);
    const double moved = distance(snapshot(model), before);
    EXPECT_GT(moved, 0);
    EXPECT_TRUE(std::isfinite(moved));
    replica->check_equal();
    if (stage.rank == 0) {
      EXPECT_EQ(nlohmann::json::parse(replica->report()).at("non_finite_pushes"), 3);
    }
    stage.workers.barrier().or_throw();
  });
}

TEST(ServerReplica, GradientsThatAreNoNumbersMayEndTheJob) {
  std::atomic<int> told = 0;
  EXPECT_THROW(train_with_servers(2, 1, LinkKind::shm,
                                  [&](const ServerStage& stage) {
                                    Mlp model;
                                    auto optimizer = sgd(model);
                                    auto options = kSmallBuckets;
                                    options.pace.non_finite = NonFinite::fatal;
                                    options.timeout = Seconds(5);
                                    const auto replica = stage.make(model, optimizer, options);
                                    const float factor =
                                        stage.rank == 1 ? std::numeric_limits<float>::infinity()
                                                        : 1;
                                    (factor * loss_of(model, Mlp::batch(0))).backward();
                                    EXPECT_THAT(message_of<JobFailed>([&] { replica->step(); }),
                                                HasSubstr("server 0"));
                                    ++told;
                                  }),
               JobFailed);
  EXPECT_EQ(told, 2);
}

// Server 1 is gone before it has heard anything.
TEST(ServerReplica, ALostServerIsNamed) {
  const auto play = [](Job& job) {
    const net::MemberGroup group = net::workers_and_servers(job);
    if (job.member() == 1) ps::Server(group, {.threads = 1, .patience = testing::kPatience}).run();
    if (job.is_server()) return;
    const auto alone = make_communicator(job);
    Mlp model;
    auto optimizer = sgd(model);
    EXPECT_THAT(
        message_of<JobFailed>([&] { make_server_replica(*alone, group, model, optimizer); }),
        HasSubstr("server 1 (pid"));
  };
  run_ranks(3, LinkKind::shm, play, 2);
}

TEST(ServerReplica, LocalParametersStayOnTheirWorker) {
  train_with_servers(2, 1, LinkKind::shm, [](const ServerStage& stage) {
    Mlp model;
    fill(model, 1 + 50 * stage.rank);
    torch::optim::SGD optimizer(model.parameters(), SGDOptions(0.05).momentum(0.9));
    auto options = kSmallBuckets;
    options.local = {"third.", "second.bias"};
    const auto replica = stage.make(model, optimizer, options);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      loss_of(model, part(Mlp::batch(step), stage.rank, 2)).backward();
      replica->step();
    }
    replica->check_equal();
    EXPECT_EQ(replica->unshared().size(), 3u);
    EXPECT_EQ(optimizer.state().size(), 3u) << "of local parameters alone";
    float own = model.third->weight[0][0].item<float>();
    std::vector<float> all(2);
    stage.workers.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(all))).or_throw();
    EXPECT_NE(all[0], all[1]);
  });
}

TEST(ServerReplica, WhatIsNotSharedIsTakenAsAsked) {
  for (const Unshared values : {Unshared::average, Unshared::first, Unshared::own})
    train_with_servers(2, 1, LinkKind::inproc, [&](const ServerStage& stage) {
      Mlp model;
      const auto mean = model.register_buffer("mean", torch::zeros({2}));
      auto optimizer = sgd(model);
      auto options = kSmallBuckets;
      options.local = {"first.bias"};
      options.evaluate_with = values;
      const auto replica = stage.make(model, optimizer, options);
      {
        torch::NoGradGuard no_grad;
        mean.fill_(stage.rank);
        model.first->bias.fill_(stage.rank + 10);
      }
      replica->average_buffers();
      const double expected = values == Unshared::average ? 0.5
                              : values == Unshared::first ? 0
                                                          : stage.rank;
      EXPECT_EQ(mean[0].item<double>(), expected);
      EXPECT_EQ(model.first->bias[0].item<double>(), 10 + expected);
    });
}

template <typename Prepare>
void expect_refused(const ServerReplicaOptions& options, const Prepare& prepare,
                    const char* message) {
  train_with_servers(1, 1, LinkKind::inproc, [&](const ServerStage& stage) {
    Mlp model;
    prepare(model);
    auto optimizer = sgd(model);
    EXPECT_THAT(message_of<BadInput>([&] { stage.make(model, optimizer, options); }),
                HasSubstr(message));
  });
}

TEST(ServerReplica, RefusesWhatServersCannotKeep) {
  const auto as_it_is = [](Mlp&) {};
  expect_refused(
      {}, [](Mlp& model) { model.second->to(torch::kFloat64); },
      "parameter second.weight is 16×16 f64: servers keep f32 parameters only");
  expect_refused({.local = {"head."}}, as_it_is, "the model trains no parameter 'head.'");
  expect_refused({.local = {"first.", "second.", "third."}}, as_it_is,
                 "no parameter is left to share");
}

TEST(ServerReplica, NoticesWhatIsFrozenLater) {
  train_with_servers(1, 1, LinkKind::inproc, [](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer);
    model.second->bias.set_requires_grad(false);
    loss_of(model, Mlp::batch(0)).backward();
    EXPECT_THAT(message_of<Error>([&] { replica->step(); }),
                HasSubstr("parameter second.bias was frozen"));
  });
}

// Workers lease samples; at a sync point they all have the same; others go on from there.
TEST(ServerReplica, LeasesAndSyncPoints) {
  std::vector<torch::Tensor> at_sync_point;
  ServerReplicaOptions options = kSmallBuckets;
  options.pace.kind = ps::pace::Kind::asp;
  ps::pace::Workload work;
  work.steps = 6;
  work.batch = 24;
  work.steps_per_epoch = 6;
  work.sync_points = {4};
  options.work = work;
  const auto lease = [](Mlp& model, torch::optim::Optimizer& optimizer, ServerReplica& replica) {
    const ps::Release release = replica.release();
    optimizer.zero_grad();
    const Batch all = Mlp::batch(release.step);
    const auto begin = static_cast<std::int64_t>(release.begin);
    const auto count = static_cast<std::int64_t>(release.end - release.begin);
    const auto loss =
        loss_of(model, {all.data.narrow(0, begin, count), all.target.narrow(0, begin, count)});
    loss.backward();
    replica.describe_batch(static_cast<std::uint64_t>(count),
                           loss.item<double>() * static_cast<double>(count));
    replica.step();
  };
  using Next = ps::Release::Next;
  train_with_servers(2, 2, LinkKind::shm, [&](const ServerStage& stage) {
    Mlp model;
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer, options);
    replica->arrive();
    while (replica->release().next == Next::lease) lease(model, optimizer, *replica);
    EXPECT_EQ(replica->release().next, Next::sync_point);
    EXPECT_EQ(replica->release().step, 4u);
    replica->check_equal();
    if (stage.rank == 0) at_sync_point = snapshot(model);
    stage.workers.barrier().or_throw();
    replica->arrive({0, 1});
    while (replica->release().next == Next::lease) lease(model, optimizer, *replica);
    EXPECT_EQ(replica->release().next, Next::end);
    replica->check_equal();
    if (stage.rank == 0) {
      EXPECT_EQ(nlohmann::json::parse(replica->report()).at("samples"), 6 * 24);
    }
    stage.workers.barrier().or_throw();
  });
  options.work->first_step = 4;
  train_with_servers(3, 1, LinkKind::tcp, [&](const ServerStage& stage) {
    Mlp model;
    fill(model, 77);
    if (stage.rank == 0) {
      torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < at_sync_point.size(); ++i)
        model.parameters()[i].copy_(at_sync_point[i]);
    }
    auto optimizer = sgd(model);
    const auto replica = stage.make(model, optimizer, options);
    replica->arrive();
    EXPECT_EQ(distance(snapshot(model), at_sync_point), 0);
    while (replica->release().next == Next::lease) lease(model, optimizer, *replica);
    EXPECT_EQ(replica->release().next, Next::end);
  });
}

}  // namespace
}  // namespace asup::testing
