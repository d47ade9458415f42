#include "asup/bench/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/bench/table.h"
#include "asup/bench/timed_job.h"
#include "asup/distribute/embeddings.h"
#include "asup/ps/serve.h"

namespace asup::bench {
namespace {

using torch::Tensor;

constexpr int kDrawn = 8;  // batches that take turns

struct Row {
  std::int64_t batch;
  double p50_us, min_us, p99_us;  // of a step of a worker: rows pulled, and their gradients pushed
  double rows_s;                  // of all workers, each row once though it goes both ways
  double torch_us, copy_us;
};

RowOptimizer optimizer_of(const EmbeddingBench& bench) {
  if (bench.optimizer == "sgd") return torch::optim::SGDOptions(1);
  if (bench.optimizer == "adagrad") return torch::optim::AdagradOptions(0.1);
  return torch::optim::AdamOptions(0.1);
}

// Even over the table, so that no cache helps.
std::vector<Tensor> drawn_ids(const EmbeddingBench& bench, std::int64_t batch, int rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  std::vector<Tensor> drawn;
  for (int i = 0; i < kDrawn; ++i) {
    drawn.push_back(torch::empty({batch}, torch::kInt64));
    auto* ids = drawn.back().mutable_data_ptr<std::int64_t>();
    for (std::int64_t at = 0; at < batch; ++at)
      ids[at] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bench.rows));
  }
  return drawn;
}

std::vector<double> times_of(const EmbeddingBench& bench, const std::function<void(int)>& step) {
  std::vector<double> times;
  // By count, not by time: workers that are in step take as many.
  const int count = bench.quick ? 24 : 120;
  for (int i = 0; i < count + kDrawn; ++i) {
    const auto begin = Clock::now();
    step(i % kDrawn);
    if (i >= kDrawn) times.push_back(seconds_since(begin) * 1e6);
  }
  std::sort(times.begin(), times.end());
  return times;
}

// torch::nn::Embedding with sparse gradients; its optimizers have no sparse Adam in C++.
double time_of_torch(const EmbeddingBench& bench, const std::vector<Tensor>& ids) {
  if (bench.optimizer == "adam") return 0;
  const Tensor weight = torch::zeros({bench.rows, bench.width}).set_requires_grad(true);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (bench.optimizer == "sgd")
    optimizer =
        std::make_unique<torch::optim::SGD>(std::vector{weight}, torch::optim::SGDOptions(1));
  else
    optimizer = std::make_unique<torch::optim::Adagrad>(std::vector{weight},
                                                        torch::optim::AdagradOptions(0.1));
  return at_share(
      times_of(bench,
               [&](int i) {
                 optimizer->zero_grad();
                 const auto& batch = ids[static_cast<std::size_t>(i)];
                 torch::embedding(weight, batch, -1, false, /*sparse=*/true).sum().backward();
                 optimizer->step();
               }),
      0.5);
}

// The rows of a batch, out of a table and back into it: once to pull, once to push.
double time_of_copies(const EmbeddingBench& bench, const std::vector<Tensor>& ids) {
  const auto width = static_cast<std::size_t>(bench.width), bytes = width * sizeof(float);
  std::vector<float> table(static_cast<std::size_t>(bench.rows) * width, 1);
  std::vector<float> rows(static_cast<std::size_t>(ids.front().numel()) * width);
  return at_share(times_of(bench,
                           [&](int i) {
                             const Tensor& batch = ids[static_cast<std::size_t>(i)];
                             const auto* id = batch.const_data_ptr<std::int64_t>();
                             const auto count = static_cast<std::size_t>(batch.numel());
                             const auto place = [&](std::size_t at) {
                               return table.data() + static_cast<std::size_t>(id[at]) * width;
                             };
                             for (std::size_t at = 0; at < count; ++at)
                               std::memcpy(rows.data() + at * width, place(at), bytes);
                             for (std::size_t at = 0; at < count; ++at)
                               std::memcpy(place(at), rows.data() + at * width, bytes);
                           }),
                  0.5);
}

// A step of SGD takes 1 from the rows of its batch, whoever else has stepped.
void check_result(const EmbeddingBench& bench, Embeddings& embeddings) {
  auto& table =
      embeddings.table("check", 1000, bench.width, {.optimizer = torch::optim::SGDOptions(1)});
  const Tensor ids = torch::arange(0, 1000, 7, torch::kInt64);
  const auto rows = [&] {
    torch::NoGradGuard no_grad;
    return table.forward(ids);
  };
  const Tensor before = rows();
  table.forward(ids).sum().backward();
  embeddings.step();
  const double moved = (before - rows()).mean().item<double>();
  const bool all = embeddings.pace() == TablePace::bsp;
  asup::check(all ? std::abs(moved - 1) < 1e-4 : moved > 0 && moved < 1.0001,
              "rows moved by {} in a step of 1", moved);
}

Table table_of_rows() {
  return {{{"ids", 10, 7},
           {"p50 us", 12, 10},
           {"p99 us", 12, 10, 3},
           {"Mrows/s", 10, 8},
           {"torch us", 12, 9, 2},
           {"/torch", 8, 7, 1},
           {"copy us", 12, 9, 4}},
          room_here()};
}

void print_row(const Row& row) {
  const auto figure = [](double value) { return value > 0 ? fmt::format("{:.2f}", value) : "-"; };
  fmt::print("{}",
             table_of_rows().row({std::to_string(row.batch), figure(row.p50_us), figure(row.p99_us),
                                  figure(row.rows_s / 1e6), figure(row.torch_us),
                                  figure(row.torch_us / row.p50_us), figure(row.copy_us)}));
  std::fflush(stdout);
}

void write_json(const EmbeddingBench& bench, const std::vector<Row>& rows) {
  auto list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back({{"op", "embedding_step"},
                    {"workers", bench.workers},
                    {"servers", bench.servers},
                    {"rows", bench.rows},
                    {"width", bench.width},
                    {"ids", row.batch},
                    {"optimizer", bench.optimizer},
                    {"link", bench.link},
                    {"pace", bench.pace},
                    {"peer", "asup"},
                    {"p50_us", row.p50_us},
                    {"min_us", row.min_us},
                    {"p99_us", row.p99_us},
                    {"rows_per_s", row.rows_s},
                    {"copy_us", row.copy_us}});
    if (row.torch_us > 0) list.back()["torch_us"] = row.torch_us;
    if (row.torch_us > 0) list.back()["ratio"] = row.torch_us / row.p50_us;
  }
  write_rows(bench.json, list);
}

void take_part(Job& job, const EmbeddingBench& bench) {
  torch::set_num_threads(1);
  const bool first = job.rank() == 0;
  Embeddings embeddings(job, {.pace = bench.pace == "bsp" ? TablePace::bsp : TablePace::asp});
  check_result(bench, embeddings);
  auto& table =
      embeddings.table("rows", bench.rows, bench.width, {.optimizer = optimizer_of(bench)});
  if (first) {
    print_text(fmt::format(
        "steps of {} of a table of {} x {}, {} workers and {} servers over {}, {}", bench.optimizer,
        bench.rows, bench.width, bench.workers, bench.servers, bench.link, bench.pace));
    fmt::print("{}", table_of_rows().head());
  }
  std::vector<Row> rows;
  for (const std::int64_t batch : bench.batches) {
    const auto ids = drawn_ids(bench, batch, job.rank());
    const std::uint64_t before = embeddings.stats().rows_pushed;
    const auto times = times_of(bench, [&](int i) {
      table.forward(ids[static_cast<std::size_t>(i)]).sum().backward();
      embeddings.step();
    });
    const double pushed = static_cast<double>(embeddings.stats().rows_pushed - before) /
                          static_cast<double>(times.size() + kDrawn);
    rows.push_back({batch, at_share(times, 0.5), at_share(times, 0), at_share(times, 0.99),
                    pushed * bench.workers / at_share(times, 0.5) * 1e6, 0, 0});
    if (!first) continue;
    rows.back().torch_us = time_of_torch(bench, ids);  // the others wait in their next step
    rows.back().copy_us = time_of_copies(bench, ids);
    print_row(rows.back());
  }
  if (first && !bench.json.empty()) write_json(bench, rows);
}

}  // namespace

void check(const EmbeddingBench& bench) {
  require(bench.link == "shm" || bench.link == "tcp", "--link {}: there is shm and tcp",
          bench.link);
  require(bench.pace == "bsp" || bench.pace == "asp", "--pace {}: there is bsp and asp",
          bench.pace);
  require(bench.optimizer == "sgd" || bench.optimizer == "adagrad" || bench.optimizer == "adam",
          "--optimizer {}: there is sgd, adagrad and adam", bench.optimizer);
  require(bench.workers >= 1 && bench.workers <= 64, "--workers {}: between 1 and 64",
          bench.workers);
  require(bench.servers >= 1 && bench.servers <= 64, "--servers {}: between 1 and 64",
          bench.servers);
  require(bench.rows >= 1 && bench.width >= 1 && bench.width <= 4096,
          "--rows {} --width {}: a table has rows, of 1 to 4096 numbers", bench.rows, bench.width);
  for (const std::int64_t batch : bench.batches)
    require(batch >= 1, "--ids {}: a step has one or more", batch);
}

int run_embedding_bench(const EmbeddingBench& bench, const std::vector<std::string>& command) {
  const net::JoinOptions identity = net::identity_from(net::process_environment());
  if (identity.size > 1) {
    Job job = Job::join(identity);
    if (job.is_server())
      ps::serve(job);
    else
      take_part(job, bench);
    return 0;
  }
  return run_as_job(command, bench.workers, bench.servers, bench.link);
}

}  // namespace asup::bench
