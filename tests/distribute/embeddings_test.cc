#include "asup/distribute/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "asup/asup.h"
#include "asup/base/error.h"
#include "asup/checkpoint/safetensors.h"
#include "asup/ps/serve.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::message_of;
using asup::testing::run_ranks;
using asup::testing::TemporaryFolder;
using net::LinkKind;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr std::int64_t kRows = 40, kWidth = 3, kBatch = 8;

void with_servers(int workers, int servers, const std::function<void(Job&)>& work) {
  torch::set_num_threads(1);
  run_ranks(
      workers + servers, LinkKind::inproc,
      [&](Job& job) {
        if (job.is_server()) return ps::serve(job, {.threads = 1, .patience = testing::kPatience});
        work(job);
      },
      servers);
}

// Two ids a sample, some of them twice in a batch, and all of the later steps below 20.
Tensor ids_of(int step) {
  const auto places = torch::arange(kBatch * 2, torch::kInt64).view({kBatch, 2});
  return (places * places * (step + 3) + step).remainder(step < 2 ? kRows : kRows / 2);
}

Tensor loss_of(const Tensor& rows, int step) {
  const auto target = torch::arange(rows.size(0), torch::kFloat32) * 0.1 + step;
  return (rows.sum(1).tanh().sum(1) - target).square().sum() / kBatch;
}

Tensor all_rows(EmbeddingTable& table) {
  torch::NoGradGuard no_grad;
  return table.forward(torch::arange(table.rows(), torch::kInt64));
}

// torch.optim.SparseAdam, which the C++ frontend lacks.
class SparseAdam {
 public:
  explicit SparseAdam(Tensor weight, double lr)
      : weight_(std::move(weight)),
        lr_(lr),
        mean_(torch::zeros_like(weight_)),
        square_(torch::zeros_like(weight_)) {}

  void step() {
    torch::NoGradGuard no_grad;
    ++steps_;
    const Tensor gradient = weight_.grad().coalesce(), rows = gradient.indices()[0];
    const Tensor g = gradient.values();
    mean_.index_put_({rows}, 0.9 * mean_.index({rows}) + 0.1 * g);
    square_.index_put_({rows}, 0.999 * square_.index({rows}) + 0.001 * g * g);
    const double rate = lr_ * std::sqrt(1 - std::pow(0.999, steps_)) / (1 - std::pow(0.9, steps_));
    const Tensor step = rate * mean_.index({rows}) / (square_.index({rows}).sqrt() + 1e-8);
    weight_.index_put_({rows}, weight_.index({rows}) - step);
  }

 private:
  Tensor weight_;
  const double lr_;
  Tensor mean_, square_;
  int steps_ = 0;
};

std::function<void()> reference_step(const Tensor& weight, const RowOptimizer& optimizer) {
  if (const auto* sgd = std::get_if<torch::optim::SGDOptions>(&optimizer)) {
    auto made = std::make_shared<torch::optim::SGD>(std::vector<Tensor>{weight}, *sgd);
    return [made] { made->step(); };
  }
  if (const auto* adagrad = std::get_if<torch::optim::AdagradOptions>(&optimizer)) {
    auto made = std::make_shared<torch::optim::Adagrad>(std::vector<Tensor>{weight}, *adagrad);
    return [made] { made->step(); };
  }
  const double lr = std::get<torch::optim::AdamOptions>(optimizer).lr();
  return [made = std::make_shared<SparseAdam>(weight, lr)] { made->step(); };
}

// One process with the whole table and torch's sparse gradients.
Tensor trained_alone(const Tensor& initial, const RowOptimizer& optimizer, int steps) {
  Tensor weight = initial.clone().set_requires_grad(true);
  const auto optimizer_step = reference_step(weight, optimizer);
  for (int step = 0; step < steps; ++step) {
    weight.mutable_grad() = Tensor();
    loss_of(torch::embedding(weight, ids_of(step), -1, false, /*sparse=*/true), step).backward();
    optimizer_step();
  }
  return weight.detach();
}

const std::vector<RowOptimizer> kOptimizers{torch::optim::SGDOptions(0.2),
                                            torch::optim::AdagradOptions(0.1),
                                            torch::optim::AdamOptions(0.05)};

void expect_close(const Tensor& found, const Tensor& expected) {
  EXPECT_TRUE(torch::allclose(found, expected, 1e-5, 2e-6)) << (found - expected).abs().max();
}

TEST(Embeddings, OneWorkerDoesWhatTorchDoesWithTheWholeTable) {
  for (const RowOptimizer& optimizer : kOptimizers)
    for (const TablePace pace : {TablePace::bsp, TablePace::asp})
      with_servers(1, 3, [&](Job& job) {
        Embeddings embeddings(job, {.pace = pace});
        auto& table = embeddings.table("items", kRows, kWidth, {.optimizer = optimizer});
        const Tensor initial = all_rows(table);
        for (int step = 0; step < 6; ++step) {
          loss_of(table.forward(ids_of(step)), step).backward();
          EXPECT_EQ(embeddings.step(), StepResult::applied);
        }
        expect_close(all_rows(table), trained_alone(initial, optimizer, 6));
        EXPECT_EQ(embeddings.stats().steps, 6u);
        EXPECT_GT(embeddings.stats().rows_pulled, embeddings.stats().rows_pushed);
      });
}

// Five samples of a batch here and three there: each loss is the mean of its own.
TEST(Embeddings, TwoWorkersInBspDoWhatOneDoesWithTheWholeBatch) {
  for (const RowOptimizer& optimizer : kOptimizers)
    with_servers(2, 2, [&](Job& job) {
      Embeddings embeddings(job, {.pace = TablePace::bsp});
      auto& table = embeddings.table("items", kRows, kWidth, {.optimizer = optimizer});
      const Tensor initial = all_rows(table);
      const std::int64_t begin = job.rank() == 0 ? 0 : 5, count = job.rank() == 0 ? 5 : 3;
      for (int step = 0; step < 6; ++step) {
        const auto target =
            torch::arange(kBatch, torch::kFloat32).narrow(0, begin, count) * 0.1 + step;
        const auto rows = table.forward(ids_of(step).narrow(0, begin, count));
        (rows.sum(1).tanh().sum(1) - target).square().mean().backward();
        embeddings.step(static_cast<std::uint64_t>(count));
      }
      expect_close(all_rows(table), trained_alone(initial, optimizer, 6));
    });
}

// The dense part beside the tables: by all-reduce, and through the same servers.
TEST(Embeddings, GoWithADensePartByAllReduceAndThroughServers) {
  const auto train = [](torch::nn::Linear& linear, const Tensor& rows, int step) {
    (linear->forward(rows.flatten(1)).squeeze(1) - step).square().mean().backward();
  };
  const auto dense = [] {
    torch::nn::Linear linear(2 * kWidth, 1);
    torch::NoGradGuard no_grad;
    linear->weight.copy_(torch::arange(2 * kWidth) * 0.1);
    linear->bias.zero_();
    return linear;
  };
  for (const Strategy& strategy : {Strategy(AllReduce{}), Strategy(ParameterServer{})})
    with_servers(2, 1, [&](Job& job) {
      Embeddings embeddings(job, {.pace = TablePace::bsp});
      auto& table = embeddings.table("items", kRows, kWidth,
                                     {.optimizer = torch::optim::SGDOptions(0.1), .init = 0.5});
      Tensor weight = all_rows(table).set_requires_grad(true);
      auto linear = dense(), alone = dense();
      torch::optim::SGD optimizer(linear->parameters(), 0.1);
      torch::optim::SGD whole({weight, alone->weight, alone->bias}, 0.1);
      const auto replica = embeddings.distribute(linear, optimizer, strategy);
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        train(linear, table.forward(ids_of(step).narrow(0, job.rank() * 4, 4)), step);
        replica->step();
        embeddings.step();
        whole.zero_grad();
        train(alone, torch::embedding(weight, ids_of(step)), step);
        whole.step();
      }
      expect_close(all_rows(table), weight.detach());
      expect_close(linear->weight.detach(), alone->weight.detach());
    });
}

// Without a strategy that says otherwise, workers are in step.
TEST(Embeddings, ThePaceIsTheStrategys) {
  with_servers(1, 1, [](Job& job) { EXPECT_EQ(Embeddings(job).pace(), TablePace::bsp); });
}

TEST(Embeddings, SeveralTablesAndSeveralUsesOfOneMakeOneStep) {
  with_servers(1, 2, [&](Job& job) {
    Embeddings embeddings(job, {.pace = TablePace::bsp});
    const TableOptions options{.optimizer = torch::optim::SGDOptions(1)};
    auto& users = embeddings.table("users", 10, 2, options);
    auto& items = embeddings.table("items", 20, 4, options);
    auto& unused = embeddings.table("unused", 5, 1, options);
    const Tensor before_users = all_rows(users), before_items = all_rows(items);
    const Tensor before_unused = all_rows(unused);
    const auto a = users.forward(torch::tensor({1, 2}, torch::kInt32));
    const auto b = users.forward(torch::tensor({{2}, {9}}));
    EXPECT_EQ(b.sizes(), (std::vector<std::int64_t>{2, 1, 2}));
    const auto c = items.forward(torch::tensor(19));
    EXPECT_EQ(c.sizes(), (std::vector<std::int64_t>{4}));
    (a.sum() + 2 * b.sum() + c.sum()).backward();
    embeddings.step();
    users.set_lr(0.5);
    users.forward(torch::tensor({0})).sum().backward();
    embeddings.step();
    Tensor expected = before_users.clone();
    expected[0] -= 0.5;
    expected[1] -= 1;
    expected[2] -= 3;
    expected[9] -= 2;
    expect_close(all_rows(users), expected);
    expected = before_items.clone();
    expected[19] -= 1;
    expect_close(all_rows(items), expected);
    EXPECT_TRUE(torch::equal(all_rows(unused), before_unused));
    EXPECT_EQ(users.forward(torch::empty({0, 3}, torch::kInt64)).numel(), 0);
  });
}

// Its step is then of the other worker's samples alone.
TEST(Embeddings, AWorkerWithoutABatchOrWithGradientsThatAreNotFiniteIsLeftOut) {
  for (const bool has_batch : {false, true})
    with_servers(2, 1, [&](Job& job) {
      Embeddings embeddings(job, {.pace = TablePace::bsp});
      auto& table = embeddings.table("items", 10, 1, {.optimizer = torch::optim::SGDOptions(1)});
      const Tensor before = all_rows(table);
      if (job.rank() == 0) {
        table.forward(torch::tensor({3})).sum().backward();
        EXPECT_EQ(embeddings.step(7), StepResult::applied);
      } else if (has_batch) {
        (table.forward(torch::tensor({3})) * std::numeric_limits<double>::infinity())
            .sum()
            .backward();
        EXPECT_EQ(embeddings.step(7), StepResult::skipped);
      } else {
        embeddings.step(0);
      }
      EXPECT_NEAR((before - all_rows(table)).sum().item<float>(), 1, 1e-5);
    });
}

TEST(Embeddings, AreSavedAndLoadedByAnotherNumberOfServers) {
  const TemporaryFolder folder;
  const TableOptions options{.optimizer = torch::optim::AdamOptions(0.05)};
  const auto train = [](Embeddings& embeddings, EmbeddingTable& table, int begin, int end) {
    for (int step = begin; step < end; ++step) {
      loss_of(table.forward(ids_of(step)), step).backward();
      embeddings.step();
    }
  };
  Tensor expected;
  with_servers(2, 3, [&](Job& job) {
    Embeddings embeddings(job, {.pace = TablePace::bsp});
    auto& table = embeddings.table("items", kRows, kWidth, options);
    train(embeddings, table, 0, 3);
    embeddings.save(folder.path() + "/tables");
    train(embeddings, table, 3, 6);
    const Tensor rows = all_rows(table);
    if (job.rank() == 0) expected = rows;
  });
  with_servers(2, 2, [&](Job& job) {
    Embeddings embeddings(job, {.pace = TablePace::bsp});
    auto& table = embeddings.table("items", kRows, kWidth, options);
    embeddings.load(folder.path() + "/tables");
    train(embeddings, table, 3, 6);
    EXPECT_TRUE(torch::equal(all_rows(table), expected));
  });
  // Other tools read it too.
  checkpoint::SafetensorsFile file(folder.path() + "/tables/items.safetensors");
  EXPECT_THAT(file.names(), ::testing::UnorderedElementsAre("weight", "exp_avg", "exp_avg_sq"));
  EXPECT_EQ(file.read("weight").sizes(), (std::vector<std::int64_t>{kRows, kWidth}));
}

// A model and a table that are trained together up to `steps`, and saved after every step from 3
// on.
class TrainingWithTables {
 public:
  explicit TrainingWithTables(std::string folder) : folder_(std::move(folder)) {}

  bool adds_tables = true;
  std::int64_t began_at = -1;

  // All numbers of both, on rank 0.
  Tensor run(int workers, int servers, std::int64_t steps, const Strategy& strategy = AllReduce{}) {
    Tensor ended;
    with_servers(workers, servers, [&](Job& job) {
      Embeddings embeddings(job, {.pace = TablePace::bsp});
      auto& table = embeddings.table("items", kRows, kWidth);
      torch::nn::Linear model(2 * kWidth, 16);
      {
        torch::NoGradGuard no_grad;
        for (auto& parameter : model->parameters()) parameter.fill_(0.1);
      }
      torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
      Checkpoint checkpoint(job, folder_);
      if (adds_tables) checkpoint.add(embeddings);
      const auto replica = checkpoint.distribute(model, optimizer, strategy);
      TrainingProgress progress = checkpoint.progress();
      if (job.rank() == 0) began_at = progress.step;
      while (progress.step < steps) {
        optimizer.zero_grad();
        const auto step = static_cast<int>(progress.step);
        model->forward(table.forward(ids_of(step)).flatten(1)).square().mean().backward();
        replica->step();
        embeddings.step();
        ++progress.step;
        if (progress.step >= 3) checkpoint.save(progress);
      }
      checkpoint.wait();
      const Tensor rows = all_rows(table);
      if (job.rank() == 0)
        ended = torch::cat(
            {rows.flatten(), torch::nn::utils::parameters_to_vector(model->parameters()).detach()});
    });
    return ended;
  }

 private:
  const std::string folder_;
};

TEST(EmbeddingsInCheckpoint, GoOnWithTheRestAndByAnotherNumberOfServers) {
  for (const Strategy& strategy : {Strategy(AllReduce{}), Strategy(ParameterServer{})}) {
    const TemporaryFolder whole, parts;
    const Tensor expected = TrainingWithTables(whole.path()).run(2, 1, 6, strategy);
    TrainingWithTables training(parts.path());
    training.run(2, 2, 4, strategy);
    EXPECT_TRUE(std::filesystem::exists(parts.path() + "/step-00000004/tables/items.safetensors"));
    EXPECT_TRUE(torch::equal(training.run(2, 3, 6, strategy), expected)) << strategy.name();
    EXPECT_EQ(training.began_at, 4);
    training.run(3, 1, 7, strategy);  // and workers
    EXPECT_EQ(training.began_at, 6);
  }
}

TEST(EmbeddingsInCheckpoint, OneWithADamagedTableIsPassedOver) {
  const TemporaryFolder folder;
  TrainingWithTables training(folder.path());
  const Tensor expected = training.run(1, 1, 4);
  const std::string path = folder.path() + "/step-00000004/tables/items.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_TRUE(torch::equal(training.run(1, 1, 4), expected));
  EXPECT_EQ(training.began_at, 3);
}

TEST(EmbeddingsInCheckpoint, AProgramWithoutTheTablesIsRefused) {
  const TemporaryFolder with, without;
  TrainingWithTables training(with.path());
  training.run(1, 1, 3);
  training.adds_tables = false;
  const Strategy strategy(ParameterServer{});
  EXPECT_THAT(message_of<JobFailed>([&] { training.run(1, 1, 3, strategy); }),
              HasSubstr("has embedding tables, and this program has added none"));
  TrainingWithTables dense(without.path());
  dense.adds_tables = false;
  dense.run(1, 1, 3, strategy);
  dense.adds_tables = true;
  EXPECT_THAT(message_of<JobFailed>([&] { dense.run(1, 1, 3, strategy); }),
              HasSubstr("has no embedding tables"));
}

TEST(Embeddings, FilesThatAreNotOfTheTableAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/items.safetensors";
  const auto refusal = [&](const TableOptions& options, std::int64_t rows) {
    std::string message;
    with_servers(1, 1, [&](Job& job) {
      Embeddings embeddings(job);
      embeddings.table("items", rows, 4, options);
      message = message_of<BadInput>([&] { embeddings.load(folder.path()); });
      if (message.empty()) embeddings.save(folder.path());
    });
    return message;
  };
  EXPECT_THAT(refusal({}, 10), HasSubstr("cannot read the table items"));
  with_servers(1, 1, [&](Job& job) {
    Embeddings embeddings(job);
    embeddings.table("items", 10, 4);
    embeddings.save(folder.path());
  });
  EXPECT_EQ(refusal({}, 10), "");
  EXPECT_THAT(refusal({}, 11), HasSubstr("has weight as [10,4]"));
  EXPECT_THAT(refusal({.optimizer = torch::optim::AdamOptions(0.1)}, 10),
              HasSubstr("was trained by 'adagrad"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THAT(refusal({}, 10), HasSubstr("cut short"));
  std::ofstream(path) << "nonsense, and more of it";
  EXPECT_THAT(refusal({}, 10), HasSubstr("no safetensors file"));
}

TEST(Embeddings, BadInputIsNamedWhereItIsAndTheOthersGoOn) {
  with_servers(2, 1, [&](Job& job) {
    Embeddings embeddings(job, {.pace = TablePace::bsp});
    auto& table = embeddings.table("items", 10, 2);
    if (job.rank() == 1) {
      const auto refusal = [&](const Tensor& ids) {
        return message_of<BadInput>([&] { table.forward(ids); });
      };
      EXPECT_EQ(refusal(torch::tensor({{3, 10}})),
                "table items: id 10 (number 1 of this batch) is no row of its 10");
      EXPECT_THAT(refusal(torch::tensor({-1})), HasSubstr("id -1"));
      EXPECT_THAT(refusal(torch::tensor({1.5f})), HasSubstr("int64 or int32, not Float"));
      EXPECT_THAT(message_of<BadInput>([&] { embeddings.table("items", 10, 2); }),
                  HasSubstr("already"));
      EXPECT_THAT(message_of<BadInput>([&] {
                    embeddings.table("more", 10, 2,
                                     {.optimizer = torch::optim::SGDOptions(0.1).momentum(0.9)});
                  }),
                  HasSubstr("momentum of 0.9"));
      EXPECT_THAT(message_of<BadInput>([&] { embeddings.table("more", 0, 2); }),
                  HasSubstr("of 0 rows"));
      return;  // as a program ends that does not catch
    }
    for (int step = 0; step < 3; ++step) {
      table.forward(torch::tensor({1})).sum().backward();
      embeddings.step();
    }
  });
}

TEST(Embeddings, WorkersThatDifferInATableAreBothTold) {
  with_servers(2, 1, [&](Job& job) {
    Embeddings embeddings(job, {.pace = TablePace::bsp});
    EXPECT_THAT(message_of<Error>([&] { embeddings.table("items", 10 + job.rank(), 2); }),
                HasSubstr("table items has rows 1"));
  });
}

TEST(Embeddings, NeedServers) {
  run_ranks(1, LinkKind::inproc, [](Job& job) {
    EXPECT_THAT(message_of<BadInput>([&] { Embeddings embeddings(job); }),
                HasSubstr("asup run --servers 1"));
  });
}

}  // namespace
}  // namespace asup
