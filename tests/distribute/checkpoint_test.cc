#include "asup/distribute/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "asup/asup.h"
#include "asup/base/error.h"
#include "asup/distribute/ways.h"
#include "asup/ps/serve.h"
#include "asup/report/run_lock.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::message_of;
using asup::testing::run_ranks;
using asup::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

struct Small : torch::nn::Module {
  explicit Small(int width = 4) {
    first = register_module("first", torch::nn::Linear(3, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    second = register_module("second", torch::nn::Linear(width, 1));
    torch::NoGradGuard no_grad;
    for (auto& parameter : parameters())
      parameter.copy_(torch::arange(parameter.numel()).view(parameter.sizes()).div(10).cos());
  }
  torch::Tensor loss(const torch::Tensor& x) {
    return second->forward(norm->forward(first->forward(x))).square().mean();
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

// Samples of a step, of which each rank takes its part.
torch::Tensor batch_of(std::int64_t step, const Job& job) {
  const auto all = torch::arange(36, torch::kFloat32).view({12, 3}).add(step).sin();
  return all.tensor_split(job.size())[static_cast<std::size_t>(job.rank())];
}

struct Ended {
  torch::Tensor weights;  // of all parameters, of the mean model
  std::int64_t began_at = 0;
  bool operator==(const Ended& other) const { return torch::equal(weights, other.weights); }
};

// Trains up to `steps`, and saves after step 3.
class Training {
 public:
  Training(Strategy strategy, std::string folder)
      : strategy_(std::move(strategy)), folder_(std::move(folder)) {}

  Ended run(int workers, std::int64_t steps) {
    Ended ended;
    const int servers = strategy_.capabilities().needs_servers ? 1 : 0;
    run_ranks(
        workers + servers, net::LinkKind::inproc,
        [&](Job& job) {
          if (job.is_server()) return ps::serve(job);
          train(job, steps, ended);
        },
        servers);
    return ended;
  }

 private:
  void train(Job& job, std::int64_t steps, Ended& ended) {
    Small net;
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    Checkpoint checkpoint(job, folder_);
    const auto replica = checkpoint.distribute(net, optimizer, strategy_);
    TrainingProgress progress = checkpoint.progress();
    if (job.rank() == 0) ended.began_at = progress.step;
    while (progress.step < steps) {
      optimizer.zero_grad();
      net.loss(batch_of(progress.step, job)).backward();
      replica->step();
      progress.advance(12, 48);
      if (progress.step == 3) checkpoint.save(progress);
    }
    replica->synchronize();
    if (job.rank() == 0)
      ended.weights = torch::nn::utils::parameters_to_vector(net.parameters()).detach().clone();
  }

  const Strategy strategy_;
  const std::string folder_;
};

class CheckpointOfWay : public ::testing::TestWithParam<const Way*> {};

// Where workers do not take turns at random.
bool repeats_bits(const Way& way) {
  const auto capabilities = way.capabilities(way.usual());
  return way.name != "adpsgd" && !capabilities.leases_samples;
}

TEST_P(CheckpointOfWay, GoesOnWhereItStood) {
  const TemporaryFolder folder;
  const Strategy strategy(*GetParam());
  const Ended whole = Training(strategy, folder.file("whole")).run(2, 7);
  Training training(strategy, folder.file("run"));
  EXPECT_EQ(training.run(2, 3).began_at, 0);
  const Ended resumed = training.run(2, 7);
  EXPECT_EQ(resumed.began_at, 3);
  if (repeats_bits(*GetParam())) {
    EXPECT_EQ(resumed, whole);
  } else {
    EXPECT_TRUE(torch::isfinite(resumed.weights).all().item<bool>());
  }
}

TEST_P(CheckpointOfWay, OnAnotherNumberOfWorkers) {
  const TemporaryFolder folder;
  const Strategy strategy(*GetParam());
  Training training(strategy, folder.file("run"));
  training.run(2, 3);
  const Ended resumed = training.run(3, 6);
  EXPECT_EQ(resumed.began_at, 3);
  EXPECT_TRUE(torch::isfinite(resumed.weights).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Ways, CheckpointOfWay, ::testing::ValuesIn(ways().begin(), ways().end()),
                         [](const auto& way) { return std::string(way.param->name); });

TEST(Checkpoint, ByAnotherWay) {
  const TemporaryFolder folder;
  Training(DiLoCo{.every = 2}, folder.file("run")).run(2, 3);
  const Ended whole = Training(AllReduce{}, folder.file("whole")).run(2, 6);
  EXPECT_EQ(Training(AllReduce{}, folder.file("run")).run(2, 6).began_at, 3);
  Training(ParameterServer{}, folder.file("through")).run(2, 3);
  const Ended resumed = Training(AllReduce{}, folder.file("through")).run(2, 6);
  EXPECT_TRUE(torch::allclose(resumed.weights, whole.weights, 1e-4, 1e-5))
      << "bsp with servers is what all-reduce is, momentum and all";
}

// The settings of one job after the other, with what it leaves.
class CheckpointFiles : public ::testing::Test {
 protected:
  void alone(const std::function<void(Job&, Small&, torch::optim::SGD&)>& body) {
    run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
      Small net;
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      body(job, net, optimizer);
    });
  }
  void save_steps(const std::vector<std::int64_t>& steps, CheckpointOptions options = {}) {
    alone([&](Job& job, Small& net, torch::optim::SGD& optimizer) {
      Checkpoint checkpoint(job, path_, options);
      const auto replica = checkpoint.distribute(net, optimizer, AllReduce{});
      for (const std::int64_t step : steps) checkpoint.save({.step = step, .notes = {{"a", "b"}}});
      checkpoint.wait();
    });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_))
      if (const std::string name = entry.path().filename(); name != ".lock") found.push_back(name);
    std::sort(found.begin(), found.end());
    return found;
  }
  TrainingProgress progress() {
    TrainingProgress found;
    alone([&](Job& job, Small& net, torch::optim::SGD& optimizer) {
      Checkpoint checkpoint(job, path_);
      const auto replica = checkpoint.distribute(net, optimizer, AllReduce{});
      found = checkpoint.progress();
    });
    return found;
  }
  void damage(const std::string& name) {
    std::fstream file(path_ + "/" + name + "/shard-1-of-1.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("checkpoints");
};

TEST_F(CheckpointFiles, KeepsTheNewest) {
  save_steps({1, 2, 3});
  EXPECT_THAT(names(), ElementsAre("step-00000002", "step-00000003"));
  EXPECT_EQ(progress().step, 3);
  EXPECT_EQ(progress().notes.at("a"), "b");
  save_steps({4}, {.keep = 0});
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(CheckpointFiles, PassesOverTheDamaged) {
  save_steps({1, 2});
  damage("step-00000002");
  EXPECT_EQ(progress().step, 1);
  damage("step-00000001");
  EXPECT_THAT(message_of<JobFailed>([&] { progress(); }),
              HasSubstr("none of its 2 checkpoints is whole"));
}

TEST_F(CheckpointFiles, AFolderThatAnotherProgramWritesIsRefused) {
  save_steps({1});
  {
    const auto writer = report::RunLock::take(path_, "rank 0 (pid 4711 on alpha)", Seconds(0));
    EXPECT_THAT(message_of<JobFailed>([&] { save_steps({2}, {.patience = Seconds(0)}); }),
                HasSubstr(path_ + " is being written by rank 0 (pid 4711 on alpha): wait"));
  }
  EXPECT_EQ(progress().step, 1);
}

TEST_F(CheckpointFiles, AnotherModelIsNamed) {
  save_steps({1});
  run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    Small wider(5);
    torch::optim::SGD optimizer(wider.parameters(), 0.1);
    Checkpoint checkpoint(job, path_);
    EXPECT_THAT(
        message_of<JobFailed>([&] { checkpoint.distribute(wider, optimizer, AllReduce{}); }),
        HasSubstr("the checkpoint is of another model: it has first.weight"));
  });
}

// A disk that takes no byte until somebody reads the other end of a pipe.
TEST_F(CheckpointFiles, StepsDoNotWaitForTheDisk) {
  const std::string unfinished = path_ + "/.step-00000001.tmp";
  const std::string disk = folder_.file("disk");
  fs::create_directories(unfinished);
  ASSERT_EQ(mkfifo(disk.c_str(), 0600), 0);
  fs::create_symlink(disk, unfinished + "/shard-1-of-1.safetensors");
  alone([&](Job& job, Small& net, torch::optim::SGD& optimizer) {
    Checkpoint checkpoint(job, path_);
    const auto replica = checkpoint.distribute(net, optimizer, AllReduce{});
    checkpoint.save({.step = 1});
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      net.loss(batch_of(step, job)).backward();
      replica->step();
    }
    EXPECT_EQ(replica->stats().steps, 5u);
    EXPECT_THAT(names(), ElementsAre(".step-00000001.tmp")) << "it is still being written";
    std::ifstream reader(disk, std::ios::binary);
    reader.ignore(std::numeric_limits<std::streamsize>::max());
    checkpoint.wait();
    EXPECT_THAT(names(), ElementsAre("step-00000001"));
  });
}

// As a full disk does.
TEST_F(CheckpointFiles, AWriteThatFailsIsToldAtTheNextCall) {
  alone([&](Job& job, Small& net, torch::optim::SGD& optimizer) {
    Checkpoint checkpoint(job, path_, {.keep = 0});
    const auto replica = checkpoint.distribute(net, optimizer, AllReduce{});
    checkpoint.save({.step = 1});
    checkpoint.wait();
    const std::string unfinished = path_ + "/.step-00000002.tmp";
    fs::create_directories(unfinished);
    fs::create_symlink("/dev/full", unfinished + "/shard-1-of-1.safetensors");
    checkpoint.save({.step = 2});
    EXPECT_THAT(message_of<JobFailed>([&] { checkpoint.save({.step = 3}); }),
                HasSubstr("cannot be written (No space left on device)"));
  });
  EXPECT_EQ(progress().step, 1);
}

TEST(TrainingProgress, CountsEpochs) {
  TrainingProgress progress;
  for (int step = 0; step < 5; ++step) progress.advance(4, 10);
  EXPECT_EQ(progress.step, 5);
  EXPECT_EQ(progress.epoch, 1u);
  EXPECT_EQ(progress.position, 8u);
}

TEST(ReduceMetrics, SumsWhatAllGive) {
  run_ranks(3, net::LinkKind::inproc, [](Job& job) {
    Small net;
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    const auto replica = distribute(job, net, optimizer, AllReduce{});
    const auto sums = reduce_metrics(*replica, {{"loss", 0.5}, {"count", job.rank()}});
    EXPECT_EQ(sums.at("loss"), 1.5);
    EXPECT_EQ(sums.at("count"), 3);
    EXPECT_THAT(message_of<JobFailed>([&] {
                  reduce_metrics(*replica, {{job.rank() == 1 ? "lost" : "loss", 1}});
                }),
                HasSubstr("rank 1 sums up the metrics lost, and rank 0 loss"));
  });
}

// Seven samples on three ranks: each once, and the mean is that of all.
TEST(EvalSampler, SeesEachSampleOnce) {
  std::vector<std::size_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    EvalSampler sampler(rank, 3, 7);
    for (int epoch = 0; epoch < 2; ++epoch) {
      sampler.reset();
      while (auto batch = sampler.next(2))
        if (epoch == 0) seen.insert(seen.end(), batch->begin(), batch->end());
    }
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EvalSampler none(1, 2, 1);
  EXPECT_FALSE(none.next(2));
}

TEST(Sampler, BeginsWhereAnotherStood) {
  Sampler whole(0, 2, 10);
  Sampler later(0, 2, 10, {.epoch = 1, .position = 4});
  whole.reset();
  while (whole.next(2)) {
  }
  whole.reset();
  whole.next(2);
  later.reset();
  EXPECT_EQ(whole.next(2), later.next(2));
}

}  // namespace
}  // namespace asup
