#include "asup/checkpoint/trained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include "asup/base/error.h"
#include "asup/checkpoint/weights_sha256.h"
#include "asup/checkpoint/writer.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/text_exchange.h"
#include "asup/report/run_folder.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::checkpoint {
namespace {

using asup::testing::message_of;
using asup::testing::run_ranks;
using asup::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Net : torch::nn::Module {
  explicit Net(int width = 4) {
    linear = register_module("linear", torch::nn::Linear(3, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm->forward(linear->forward(x)); }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

void train_a_little(Net& net, torch::optim::Optimizer& optimizer) {
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    net.forward(torch::randn({5, 3})).square().sum().backward();
    optimizer.step();
  }
}

TEST(WeightsSha256, CoversNamesShapesAndBits) {
  torch::manual_seed(1);
  Net net;
  const auto hash = weights_sha256(net);
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(weights_sha256(net), hash);
  torch::NoGradGuard no_grad;
  net.norm->running_mean.add_(1);  // buffers count
  EXPECT_NE(weights_sha256(net), hash);
}

TEST(StringsExchange, TextsOfAnyLength) {
  run_ranks(3, net::LinkKind::inproc, [](Job& job) {
    const auto communicator = make_communicator(job);
    const std::string own(static_cast<std::size_t>(job.rank()) * 1000,
                          static_cast<char>('a' + job.rank()));
    EXPECT_EQ(broadcast_text(*communicator, job.rank() == 0 ? "from rank 0" : "other"),
              "from rank 0");
    EXPECT_EQ(broadcast_text(*communicator, ""), "");
    EXPECT_THAT(gather_texts(*communicator, own),
                ElementsAre("", std::string(1000, 'b'), std::string(2000, 'c')));
    const auto at_first = gather_texts_at_first(*communicator, own);
    if (job.rank() == 0) {
      EXPECT_THAT(at_first, ElementsAre("", std::string(1000, 'b'), std::string(2000, 'c')));
    } else {
      EXPECT_TRUE(at_first.empty());
    }
    EXPECT_EQ(gather_texts_at_first(*communicator, "").size(), job.rank() == 0 ? 3u : 0u);
    std::vector<std::string_view> dealt;
    if (job.rank() == 0) dealt = {"first", "", "and last"};
    const std::array expected{"first", "", "and last"};
    EXPECT_EQ(scatter_texts(*communicator, dealt), expected[static_cast<std::size_t>(job.rank())]);
  });
}

TEST(StringsExchange, WaitsForATextAsLongAsItIsTold) {
  run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    CommunicatorOptions options;
    options.timeout = Seconds(0.2);
    const auto communicator = make_communicator(job, options);
    if (job.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    EXPECT_EQ(broadcast_text(*communicator, job.rank() == 0 ? "late" : "", Seconds(60)), "late");
  });
}

Trained as_trained(Net& net, torch::optim::Optimizer& optimizer, Job& job) {
  return {net, optimizer, sync::buffers_of(net), false, job.rank()};
}

void restore(Communicator& communicator, const std::string& path, Trained& trained,
             bool same_way = true) {
  Reader reader(communicator, path);
  Restore restore(reader, communicator, trained.rank, same_way);
  restore.common(trained.module, trained.optimizer);
  restore.own(trained);
}

// Whose it is, is the caller's to say.
const nlohmann::ordered_json kRun{{"step", 12}};

class CheckpointTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::string path_ = folder_.file("step-00000012");
};

TEST_F(CheckpointTest, BringsBackWeightsStatisticsMomentaAndRandomNumbers) {
  torch::manual_seed(3);
  run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Net net;
    torch::optim::Adam optimizer(net.parameters(), 0.01);
    train_a_little(net, optimizer);
    save(*communicator, path_, kRun, as_trained(net, optimizer, job));
    const auto random = torch::randn({4});
    train_a_little(net, optimizer);
    const auto expected = weights_sha256(net);

    Net other;
    torch::optim::Adam others(other.parameters(), 0.01);
    Trained restored = as_trained(other, others, job);
    restore(*communicator, path_, restored);
    EXPECT_TRUE(torch::equal(torch::randn({4}), random));
    train_a_little(other, others);
    EXPECT_EQ(weights_sha256(other), expected);
  });
}

// As of an earlier version, whose names were others.
TEST_F(CheckpointTest, OfAnotherModelIsRefusedByName) {
  struct Renamed : torch::nn::Module {
    Renamed() { register_module("fc", torch::nn::Linear(3, 4)); }
  };
  struct Smaller : torch::nn::Module {
    Smaller() { register_module("linear", torch::nn::Linear(3, 4)); }
  };
  run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Net net;
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    save(*communicator, path_, kRun, as_trained(net, optimizer, job));
    const Index index = Folder(path_).index();
    check_is_of(index, net);
    EXPECT_THAT(message_of<BadInput>([&] { check_is_of(index, Renamed()); }),
                AllOf(HasSubstr("another version of asup"),
                      HasSubstr("it has no fc.weight, but linear.bias")));
    EXPECT_THAT(message_of<BadInput>([&] { check_is_of(index, Net(5)); }),
                HasSubstr("it has linear.weight 4×3 f32, where the model has 5×3 f32"));
    EXPECT_THAT(message_of<BadInput>([&] { check_is_of(index, Smaller()); }),
                HasSubstr("it has norm.bias, which the model has not"));
  });
}

TEST_F(CheckpointTest, EachRankGetsItsOwnStatistics) {
  run_ranks(3, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Net net, other;
    torch::optim::SGD optimizer(net.parameters(), 0.1), others(other.parameters(), 0.1);
    net.norm->running_mean.fill_(job.rank() + 1);
    save(*communicator, path_, kRun, as_trained(net, optimizer, job));
    Trained restored = as_trained(other, others, job);
    restore(*communicator, path_, restored);
    EXPECT_EQ(other.norm->running_mean[0].item<float>(), static_cast<float>(job.rank() + 1));
  });
}

// A rank trains a parameter for itself, and is gone when the checkpoint is made.
TEST_F(CheckpointTest, OwnParametersAndTheirMomentaComeBackToTheirRank) {
  run_ranks(3, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    const auto left = communicator->split(job.rank() == 1 ? -1 : 0, job.rank());
    Net net, other;
    const auto sgd = torch::optim::SGDOptions(0.1).momentum(0.5);
    torch::optim::SGD optimizer(net.parameters(), sgd), others(other.parameters(), sgd);
    Trained trained = as_trained(net, optimizer, job), restored = as_trained(other, others, job);
    for (Trained* one : {&trained, &restored}) {
      one->own.push_back({"linear.bias", sync::parameters_of(one->module).back().tensor});
      one->own_optimizer = true;
    }
    train_a_little(net, optimizer);
    {
      torch::NoGradGuard no_grad;
      trained.own.back().tensor.fill_(job.rank() + 5);
    }
    if (left) save(*left, path_, kRun, trained);
    communicator->barrier().or_throw();
    restore(*communicator, path_, restored);
    const float expected = static_cast<float>(job.rank() == 1 ? 5 : job.rank() + 5);
    EXPECT_EQ(restored.own.back().tensor.flatten()[0].item<float>(), expected);
    EXPECT_EQ(others.state().size(), optimizer.state().size());
  });
}

double momentum_in(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
  return static_cast<torch::optim::SGDParamState&>(
             *optimizer.state().at(parameter.unsafeGetTensorImpl()))
      .momentum_buffer()
      .flatten()[0]
      .item<double>();
}

// As many ranks as before get their own models again; fewer, or by another way of staying in step,
// get the mean.
TEST_F(CheckpointTest, ModelsThatDiffer) {
  run_ranks(3, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    const auto two = communicator->split(job.rank() == 2 ? -1 : 0, job.rank());
    const auto sgd = torch::optim::SGDOptions(0.1).momentum(0.5);
    Net net;
    torch::optim::SGD optimizer(net.parameters(), sgd);
    train_a_little(net, optimizer);
    {
      torch::NoGradGuard no_grad;
      for (auto& parameter : net.parameters()) {
        parameter.fill_(10 * job.rank());
        auto& state = *optimizer.state().at(parameter.unsafeGetTensorImpl());
        static_cast<torch::optim::SGDParamState&>(state).momentum_buffer().fill_(job.rank());
      }
    }
    const auto counts = [](int common, int own) {
      return ReplicaState{{{"steps", torch::tensor({common}, torch::kInt64)}},
                          {{"samples", torch::tensor({own}, torch::kInt64)}}};
    };
    Trained trained = as_trained(net, optimizer, job);
    for (const auto& [name, tensor] : sync::parameters_of(net))
      trained.mean_model.push_back({name, torch::full_like(tensor.detach(), 10)});
    trained.replica = counts(7, 100 + job.rank());
    save(*communicator, path_, kRun, trained);

    const auto expect = [&](Communicator& ranks, bool same_way, double parameter, double momentum,
                            int common, int own) {
      Net other;
      torch::optim::SGD others(other.parameters(), sgd);
      Trained restored = as_trained(other, others, job);
      restored.replica = counts(0, 0);
      restore(ranks, path_, restored, same_way);
      EXPECT_EQ(other.linear->weight[0][0].item<double>(), parameter);
      EXPECT_EQ(momentum_in(others, other.linear->weight), momentum);
      EXPECT_EQ(restored.replica.common[0].tensor.item<int>(), common);
      EXPECT_EQ(restored.replica.own[0].tensor.item<int>(), own);
    };
    expect(*communicator, true, 10 * job.rank(), job.rank(), 7, 100 + job.rank());
    expect(*communicator, false, 10, 1, 0, 0);
    if (two) expect(*two, true, 10, 1, 7, 0);
  });
}

// The options in force are the run's, not those of the time.
TEST_F(CheckpointTest, KeepsTheOptimizersOptions) {
  run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Net net;
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
    save(*communicator, path_, kRun, as_trained(net, optimizer, job));
    torch::optim::SGD other(net.parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
    Trained restored = as_trained(net, other, job);
    restore(*communicator, path_, restored);
    const auto& options =
        static_cast<const torch::optim::SGDOptions&>(other.param_groups()[0].options());
    EXPECT_EQ(options.lr(), 0.2);
    EXPECT_EQ(options.momentum(), 0.9);
  });
}

// Ranks write parts, and any number of them read the whole; the file says names.
TEST_F(CheckpointTest, IsWrittenByAllAndReadByAnyNumber) {
  const auto big = torch::arange(3 * 150'000, torch::kFloat32).reshape({150'000, 3});
  struct Wide : torch::nn::Module {
    explicit Wide(const torch::Tensor& weights) {
      weight = register_parameter("weight", weights.clone());
    }
    torch::Tensor weight;
  };
  run_ranks(3, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Wide wide(big);
    torch::optim::SGD optimizer(wide.parameters(), 0.1);
    save(*communicator, path_, kRun, {wide, optimizer, {}, false, job.rank()});
    const Index index = Folder(path_).index();
    const auto& entry = index.tensors.at("model/weight");
    EXPECT_EQ(entry.parts.size(), 3u);
    EXPECT_EQ(entry.parts[1].begin, (Shape{50'000, 0}));
    EXPECT_EQ(entry.parts[1].shape, (Shape{50'000, 3}));
  });
  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Wide wide(torch::zeros({150'000, 3}));
    torch::optim::SGD optimizer(wide.parameters(), 0.1);
    Trained restored{wide, optimizer, {}, false, job.rank()};
    restore(*communicator, path_, restored);
    EXPECT_TRUE(torch::equal(wide.weight.detach(), big));
  });
}

// Their mean over ranks stays: of more ranks those that were there have it, of fewer all.
TEST_F(CheckpointTest, PartsComeBackOrTheirMeanDoes) {
  const auto with_part = [](Net& net, torch::optim::Optimizer& optimizer, Job& job, float value) {
    Trained trained = as_trained(net, optimizer, job);
    trained.replica.parts = {{"lost", torch::full({5}, value)}};
    return trained;
  };
  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    Net net;
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    save(*make_communicator(job), path_, kRun,
         with_part(net, optimizer, job, job.rank() == 0 ? 1.0f : 4.0f));
  });
  for (const int ranks : {2, 3, 1})
    run_ranks(ranks, net::LinkKind::inproc, [&](Job& job) {
      Net net;
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      Trained trained = with_part(net, optimizer, job, -1);
      restore(*make_communicator(job), path_, trained);
      const std::vector<float> wanted = ranks == 1   ? std::vector{2.5f}
                                        : ranks == 2 ? std::vector{1.0f, 4.0f}
                                                     : std::vector{1.5f, 6.0f, 0.0f};
      EXPECT_TRUE(torch::equal(trained.replica.parts[0].tensor,
                               torch::full({5}, wanted[static_cast<std::size_t>(job.rank())])));
    });
}

// As on another host: where `path` leads is this thread's own from now on.
void work_in(const std::string& path) {
  std::filesystem::create_directories(path);
  ASSERT_EQ(unshare(CLONE_FS), 0);
  ASSERT_EQ(chdir(path.c_str()), 0);
}

// They run on other hosts: rank 0 writes for them, and reads.
TEST_F(CheckpointTest, RanksThatDoNotSeeTheFolderSendAndGetTheirTensors) {
  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    const std::vector<sync::NamedTensor> own{
        {job.rank() == 0 ? "a" : "b", torch::full({3}, job.rank() + 1.0)}};
    work_in(fmt::format("{}/host-{}", folder_.path(), job.rank()));
    write(*communicator, "step-1", {{"step", 1}}, parts_of_rank({{}, own}, 0, 1));
    EXPECT_EQ(std::filesystem::exists("step-1"), job.rank() == 0);
    Reader reader(*communicator, "step-1");
    const auto back = reader.read(*communicator, {"a", "b", "c"});
    EXPECT_EQ(back.size(), 2u);
    EXPECT_EQ(back.at("a").sum().item<double>(), 3);
    EXPECT_EQ(back.at("b").sum().item<double>(), 6);
    EXPECT_EQ(reader.read(*communicator, {job.rank() == 0 ? "c" : "b"}).size(),
              job.rank() == 0 ? 0u : 1u);
  });
}

// A matrix whose columns are two blocks, each of which is cut over the ranks, and a bias that all
// have.
struct Columns : torch::nn::Module {
  explicit Columns(std::int64_t columns) {
    weight = register_parameter("weight", torch::zeros({2, columns}));
    bias = register_parameter("bias", torch::zeros({2}));
  }
  // Gradients are the weights.
  void step(torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    (weight.square().sum() + bias.square().sum()).div(2).backward();
    optimizer.step();
  }
  torch::Tensor weight, bias;
};

Cut columns_of(int rank) { return {{2, 8}, 1, {{2 * rank, 2}, {4 + 2 * rank, 2}}}; }

Trained as_part(Columns& net, torch::optim::Optimizer& optimizer, int rank) {
  Trained trained{net, optimizer, {}, false, rank};
  trained.part = {"weight"};
  if (rank == 0) trained.part->push_back("bias");
  trained.cuts = {{"weight", columns_of(rank)}};
  return trained;
}

TEST_F(CheckpointTest, OfCutTensorsIsThatOfWholeOnes) {
  const torch::Tensor whole = torch::arange(16).to(torch::kFloat).view({2, 8});
  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Columns net(4);
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.5).momentum(0.5));
    {
      torch::NoGradGuard no_grad;
      net.weight.copy_(columns_of(job.rank()).part_of(whole));
      net.bias.fill_(3);
    }
    net.step(optimizer);
    save(*communicator, path_, kRun, as_part(net, optimizer, job.rank()));
    const Index index = Folder(path_).index();
    check_is_of(index, net, {{"weight", columns_of(job.rank())}});
    EXPECT_EQ(index.tensors.at("model/weight").shape, (Shape{2, 8}));
    EXPECT_EQ(index.tensors.at("model/weight").parts.size(), 4u);

    Columns other(4);
    torch::optim::SGD others(other.parameters(), torch::optim::SGDOptions(0.5).momentum(0.5));
    Trained trained = as_part(other, others, job.rank());
    Reader reader(*communicator, path_);
    Restore restore(reader, *communicator, trained.rank, true, trained.cuts);
    restore.common(other, others);
    restore.own(trained);
    EXPECT_TRUE(torch::equal(other.weight, net.weight));
    for (Columns* each : {&net, &other}) each->step(each == &net ? optimizer : others);
    EXPECT_TRUE(torch::equal(other.weight, net.weight));  // with the same momentum
    EXPECT_TRUE(torch::equal(other.bias, net.bias));
  });
  Folder folder(path_);
  EXPECT_TRUE(torch::equal(folder.read("model/weight"), whole / 2));
  EXPECT_TRUE(torch::equal(folder.read("optimizer/momentum_buffer/weight"), whole));
  EXPECT_EQ(folder.read("optimizer/step/weight").numel(), 1);
  EXPECT_EQ(folder.read("model/bias").sum().item<double>(), 3);
  folder.verify();
}

TEST_F(CheckpointTest, TakesThePlaceOfOneThatWasThere) {
  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    for (const double value : {1.0, 2.0})
      write(*communicator, path_, {{"step", 1}},
            parts_of_rank({{{"a", torch::full({2}, value)}}, {}}, job.rank(), 2));
  });
  EXPECT_EQ(Folder(path_).read("a").sum().item<double>(), 4);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    files.push_back(entry.path().filename().string());
  EXPECT_THAT(files, ElementsAre("step-00000012"));
}

TEST_F(CheckpointTest, AnotherModelIsNamed) {
  run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Net net, wider(5);
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    save(*communicator, path_, kRun, as_trained(net, optimizer, job));
    Trained restored = as_trained(wider, optimizer, job);
    EXPECT_THAT(message_of<JobFailed>([&] { restore(*communicator, path_, restored); }),
                HasSubstr("it has linear.weight 4×3 f32, where the model has 5×3 f32"));
  });
}

TEST_F(CheckpointTest, AllRanksSayWhyItCannotBeWritten) {
  const auto path = folder_.file("none/step-00000012");
  run_ranks(2, net::LinkKind::inproc, [&](Job& job) {
    const auto communicator = make_communicator(job);
    Net net;
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    EXPECT_THAT(message_of<JobFailed>(
                    [&] { save(*communicator, path, kRun, as_trained(net, optimizer, job)); }),
                HasSubstr(path + ": cannot be written (No such file or directory)"));
  });
}

}  // namespace
}  // namespace asup::checkpoint
