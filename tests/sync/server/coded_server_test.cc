// Training through servers where gradients and weights travel in a code, in programs: without
// leases.
#include <gmock/gmock.h>

#include <limits>

#include "asup/sync/server/server_replica.h"
#include "tests/support/thrown.h"
#include "tests/sync/server_training.h"

namespace asup::testing {
namespace {

using kernels::Code;
using net::LinkKind;
using ::testing::HasSubstr;

constexpr std::int64_t kWidth = 64;  // the second of the three weights is large enough for a code

ServerReplicaOptions in_code(Code code, bool feedback = false) {
  return {.bucket_bytes = 600, .first_bucket_bytes = 100, .code = code, .feedback = feedback};
}

struct Program {
  Program(const ServerStage& stage, const ServerReplicaOptions& options, std::uint64_t seed = 7)
      : stage(stage), model(filled(seed)), optimizer(model.parameters(), 0.05) {
    replica = stage.make(model, optimizer, options);
  }
  static Mlp filled(std::uint64_t seed) {
    Mlp model(kWidth);
    fill(model, seed);
    return model;
  }

  StepResult step(int number, float factor = 1, std::uint64_t samples = 0) {
    optimizer.zero_grad();
    const auto batch =
        part(Mlp::batch(static_cast<std::uint64_t>(number)), stage.rank, stage.workers.size());
    if (samples > 0) replica->describe_batch(samples, 0);
    (factor * loss_of(model, batch)).backward();
    return replica->step();
  }
  // The servers', and all have them.
  std::vector<torch::Tensor> synchronized() {
    replica->synchronize();
    replica->check_equal();
    return snapshot(model);
  }

  const ServerStage& stage;
  Mlp model;
  torch::optim::SGD optimizer;
  std::unique_ptr<ServerReplica> replica;
};

TEST(CodedServers, StayNearWhatTrainsWithoutACode) {
  for (const auto& [code, feedback, apart] :
       std::initializer_list<std::tuple<Code, bool, double>>{{Code::bf16, false, 1e-3},
                                                             {Code::f16, false, 1e-3},
                                                             {Code::int8, false, 5e-3},
                                                             {Code::int8, true, 2e-3},
                                                             {Code::int4, true, 0.03},
                                                             {Code::onebit, true, 0.15}}) {
    SCOPED_TRACE(fmt::format("{} {}", kernels::name_of(code), feedback));
    std::vector<torch::Tensor> plain;
    for (const auto& options : {in_code(Code::none), in_code(code, feedback)})
      train_with_servers(2, 2, LinkKind::shm, [&](const ServerStage& stage) {
        Program program(stage, options);
        for (int step = 0; step < 20; ++step) program.step(step);
        program.replica->with_mean_model([&] { program.replica->check_equal(); });
        const auto reached = program.synchronized();
        if (stage.rank > 0) return;
        if (options.code == Code::none)
          plain = reached;
        else
          EXPECT_LT(distance(reached, plain), apart);
      });
  }
}

// A look at the servers' parameters changes nothing of what comes after.
TEST(CodedServers, TrainOnFromWhereTheyWereAfterALook) {
  for (const bool looks : {false, true}) {
    static std::vector<torch::Tensor> without;
    train_with_servers(2, 2, LinkKind::tcp, [&](const ServerStage& stage) {
      Program program(stage, in_code(Code::onebit, true));
      for (int step = 0; step < 6; ++step) {
        program.step(step);
        if (!looks || step != 3) continue;
        const auto own = snapshot(program.model);
        program.replica->with_mean_model(
            [&] { EXPECT_GT(distance(snapshot(program.model), own), 0); });
        EXPECT_EQ(distance(snapshot(program.model), own), 0);
      }
      EXPECT_TRUE(program.replica->models_differ());
      if (stage.rank > 0) return;
      if (looks)
        EXPECT_EQ(distance(snapshot(program.model), without), 0);
      else
        without = snapshot(program.model);
    });
  }
}

// Steps that servers leave out leave what was lost before as it was.
TEST(CodedServers, ASkippedStepLeavesWhatWasLostAsItWas) {
  train_with_servers(2, 1, LinkKind::shm, [](const ServerStage& stage) {
    Program program(stage, in_code(Code::onebit, true));
    for (int step = 0; step < 3; ++step) program.step(step);
    const auto lost = [&] {
      std::vector<torch::Tensor> tensors;
      for (const auto& [name, tensor] : program.replica->state().parts)
        tensors.push_back(tensor.clone());
      return tensors;
    };
    const auto before = lost();
    ASSERT_EQ(before.size(), 1u);
    EXPECT_GT(before[0].abs().sum().item<float>(), 0);
    EXPECT_EQ(program.step(3, std::numeric_limits<float>::infinity()), StepResult::skipped);
    EXPECT_EQ(distance({lost()[0]}, {before[0]}), 0);
    EXPECT_EQ(program.step(3), StepResult::applied);
    EXPECT_GT(distance({lost()[0]}, {before[0]}), 0);
  });
}

// What is beyond the largest number of fp16 counts as infinite.
TEST(CodedServers, NumbersThatTheCodeMakesInfiniteAreSkipped) {
  train_with_servers(2, 1, LinkKind::shm, [](const ServerStage& stage) {
    Program program(stage, in_code(Code::f16));
    EXPECT_EQ(program.step(0), StepResult::applied);
    EXPECT_EQ(program.step(1, 1e8F), StepResult::skipped);
    for (const auto& parameter : program.model.parameters())
      EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>());
  });
}

// Others begin with what a checkpoint has of these, and end with their bits.
TEST(CodedServers, GoOnFromACheckpointToTheSameBits) {
  std::vector<torch::Tensor> common, whole;
  std::vector<ReplicaState> saved(2);
  std::vector<std::vector<torch::Tensor>> own(2);
  const ServerReplicaOptions options = in_code(Code::onebit, true);
  train_with_servers(2, 2, LinkKind::shm, [&](const ServerStage& stage) {
    Program program(stage, options);
    for (int step = 0; step < 4; ++step) program.step(step, 1, stage.rank == 0 ? 9 : 15);
    const auto rank = static_cast<std::size_t>(stage.rank);
    own[rank] = snapshot(program.model);
    saved[rank] = program.replica->state();
    for (auto* tensors : {&saved[rank].parts, &saved[rank].common, &saved[rank].own})
      for (auto& [name, tensor] : *tensors) tensor = tensor.clone();
    program.replica->with_mean_model([&] {
      if (stage.rank == 0) common = snapshot(program.model);
    });
    for (int step = 4; step < 8; ++step) program.step(step, 1, stage.rank == 0 ? 9 : 15);
    if (stage.rank == 0) whole = snapshot(program.model);
  });
  const auto put = [](torch::nn::Module& module, const std::vector<torch::Tensor>& values) {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < values.size(); ++i) module.parameters()[i].copy_(values[i]);
  };
  train_with_servers(2, 2, LinkKind::tcp, [&](const ServerStage& stage) {
    Mlp model(kWidth);
    put(model, common);
    torch::optim::SGD optimizer(model.parameters(), 0.05);
    const auto replica = stage.make(model, optimizer, options);
    const auto rank = static_cast<std::size_t>(stage.rank);
    put(model, own[rank]);
    replica->restore(saved[rank]);
    for (int step = 4; step < 8; ++step) {
      optimizer.zero_grad();
      replica->describe_batch(stage.rank == 0 ? 9 : 15, 0);
      loss_of(model, part(Mlp::batch(static_cast<std::uint64_t>(step)), stage.rank, 2)).backward();
      replica->step();
    }
    EXPECT_EQ(distance(snapshot(model), whole), 0);
  });
}

TEST(CodedServers, WorkersThatDisagreeAreTold) {
  train_with_servers(2, 1, LinkKind::shm, [](const ServerStage& stage) {
    const auto code = stage.rank == 0 ? Code::int8 : Code::int4;
    EXPECT_THAT(message_of<Error>([&] { Program program(stage, in_code(code)); }),
                HasSubstr("compress"));
  });
}

}  // namespace
}  // namespace asup::testing
