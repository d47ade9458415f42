#include "asup/bench/memory.h"

#include <fmt/format.h>
#include <malloc.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/sizes.h"
#include "asup/bench/table.h"
#include "asup/distribute/distribute.h"
#include "asup/launch/launch.h"
#include "asup/net/job.h"
#include "asup/ps/serve.h"
#include "asup/sync/gradients/all_reduce.h"
#include "asup/sync/server/parameter_server.h"
#include "asup/sync/server/rules_of.h"

namespace asup::bench {
namespace {

using nlohmann::json;

constexpr const char* kCase = "ASUP_MEMORY_CASE";  // its number, in the members' environment
constexpr const char* kRows = "ASUP_MEMORY_ROWS";  // the file for them
constexpr int kLayers = 24;
constexpr int kSteps = 4;

struct Case {
  std::string optimizer;
  std::string link;         // none: one process trains alone
  double compensation = 0;  // of late gradients
  std::string merge = "none";
  std::optional<Shard> shard{};  // by all-reduce, without servers

  bool has_server() const { return link != "none" && !shard; }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    all.push_back({optimizer, "none"});
    for (const char* link : {"shm", "tcp"})
      for (const double compensation : {0.0, 0.04}) all.push_back({optimizer, link, compensation});
    all.push_back({optimizer, "shm", 0, "easgd"});
    for (const auto& [name, shard] : names_of(Shard{}))
      all.push_back({.optimizer = optimizer, .link = "shm", .shard = shard});
  }
  return all;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        const torch::nn::Module& model) {
  if (name == "adam") return std::make_unique<torch::optim::Adam>(model.parameters());
  return std::make_unique<torch::optim::SGD>(
      model.parameters(), torch::optim::SGDOptions(0.001).momentum(name == "momentum" ? 0.9 : 0));
}

// Equal layers without biases.
torch::nn::Sequential make_model(std::size_t bytes) {
  const double floats = static_cast<double>(bytes) / sizeof(float) / kLayers;
  const auto width = static_cast<std::int64_t>(std::max(1.0, std::round(std::sqrt(floats))));
  torch::nn::Sequential model;
  for (int layer = 0; layer < kLayers; ++layer)
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)));
  return model;
}

// What of a process's memory is its own, and what it shares with others and has touched.
struct Resident {
  double anonymous = 0, shared = 0;
};

Resident resident_of(int pid) {
  Resident resident;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    const auto kilobytes = [&] { return 1024 * std::stod(line.substr(line.find(':') + 1)); };
    if (line.starts_with("RssAnon:")) resident.anonymous = kilobytes();
    if (line.starts_with("RssShmem:")) resident.shared = kilobytes();
  }
  check(resident.anonymous > 0, "the memory of process {} is not known", pid);
  return resident;
}

// A worker's parameters and gradients may lie in memory that it shares; what a server has of that
// is its workers'.
double own_bytes(const net::Member& member) {
  const Resident resident = resident_of(member.pid);
  return resident.anonymous + (member.server ? 0 : resident.shared);
}

// What a process has of memory that several share: a part for each of them, as the kernel counts.
double proportional_bytes(int pid) {
  double bytes = 0;
  std::ifstream rollup(fmt::format("/proc/{}/smaps_rollup", pid));
  for (std::string line; std::getline(rollup, line);)
    if (line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:"))
      bytes += 1024 * std::stod(line.substr(line.find(':') + 1));
  check(bytes > 0, "the memory of process {} is not known", pid);
  return bytes;
}

// The most that this process has while a gradient comes, in the steps taken in its life.
class PeakInBackward {
 public:
  explicit PeakInBackward(const torch::nn::Module& model) {
    for (const torch::Tensor& parameter : model.parameters())
      hooks_.emplace_back(parameter, parameter.register_hook([this](const torch::Tensor&) {
        bytes_ = std::max(bytes_, proportional_bytes(::getpid()));
      }));
  }
  ~PeakInBackward() {
    for (const auto& [parameter, hook] : hooks_) parameter.remove_hook(hook);
  }
  PeakInBackward(const PeakInBackward&) = delete;
  PeakInBackward& operator=(const PeakInBackward&) = delete;

  double bytes() const { return bytes_; }

 private:
  double bytes_ = 0;
  std::vector<std::pair<torch::Tensor, unsigned>> hooks_;
};

// In multiples of the model, between steps, and at most in one: docs/sharding.md has the formulas.
double expected_of_shards(Shard shard, double slots, int workers) {
  const auto kept = [&](Shard since) { return shard >= since ? 1.0 / workers : 1; };
  return kept(Shard::parameters) + kept(Shard::gradients) + slots * kept(Shard::optimizer);
}

double expected_peak_of_shards(Shard shard, double slots, int workers) {
  constexpr double kLayer = 1.0 / kLayers;
  const double gradients = sync::cuts_gradients(shard) ? 3 * kLayer : 0;  // that travel
  const double others = shard == Shard::parameters ? 2 * kLayer * (workers - 1) / workers : 0;
  return expected_of_shards(shard, slots, workers) + gradients + others;
}

// In multiples of the model.
double expected(const Case& one, bool is_server, double slots, int workers) {
  if (one.shard) return expected_of_shards(*one.shard, slots, workers);
  const bool is_merged = one.merge != "none";
  if (!is_server) {
    const bool has_state = one.link == "none" || is_merged;
    return 2 + (has_state ? slots : 0) + (is_merged ? 2 : 0);  // what is pushed, and the center
  }
  const double staged = one.link == "tcp" ? workers : 0;
  const double gathered = one.optimizer == "adam" ? 1 : 0;  // an update is less than a step
  return 1 + (is_merged ? 0 : slots + gathered) + staged * (one.compensation > 0 ? 2 : 1);
}

void take_steps(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer, int steps,
                const std::function<void()>& step) {
  const auto* first = model->children().front()->as<torch::nn::LinearImpl>();
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    model->forward(torch::ones({2, first->options.in_features()})).square().mean().backward();
    step();
  }
}

// What torch needs at its first step has nothing to do with the model.
void warm_up() {
  auto model = make_model(1 << 16);
  const auto optimizer = make_optimizer("adam", *model);
  take_steps(model, *optimizer, 2, [&] { optimizer->step(); });
}

Strategy strategy_of(const Case& one) {
  if (one.shard) return AllReduce{.shard = *one.shard};
  ParameterServer options{.pace = Asp{}, .compensation = one.compensation};
  for (const auto& [name, merge] : names_of(Merge{}))
    if (name == one.merge) options.merge = merge;
  if (options.merge != Merge::none) options.every = 1;
  return options;
}

json row_of(const Case& one, const MemoryBench& bench, const std::string& role, double bytes,
            double model, double multiples) {
  return {{"role", role},
          {"optimizer", one.optimizer},
          {"link", one.link},
          {"compensation", one.compensation},
          {"merge", one.merge},
          {"shard", one.shard ? std::string(config::name_of_choice(*one.shard)) : ""},
          {"workers", bench.workers},
          {"model_bytes", model},
          {"bytes", bytes},
          {"expected_bytes", multiples * model},
          {"ratio", bytes / (multiples * model)}};
}

// One member's part in a case; rank 0 looks at all of them, and writes a row for a worker and one
// for the server.
void take_part(Job& job, const MemoryBench& bench, const Case& one) {
  if (job.is_server()) return ps::serve(job);
  torch::set_num_threads(1);
  warm_up();
  const auto control = make_communicator(job, Strategy{});
  const auto measure = [&] {
    malloc_trim(0);  // what was freed is no need
    control->barrier().or_throw();
    std::vector<double> bytes;
    for (const net::Member& member : job.roster().members)
      bytes.push_back(one.shard ? proportional_bytes(member.pid) : own_bytes(member));
    control->barrier().or_throw();
    return bytes;
  };
  const std::vector<double> before = measure();
  auto model = make_model(bench.bytes);
  const auto optimizer = make_optimizer(one.optimizer, *model);
  const auto slots = static_cast<double>(kernels::state_slots(sync::rules_of(*optimizer).front()));
  double model_bytes = 0;
  for (const auto& parameter : model->parameters())
    model_bytes += static_cast<double>(parameter.numel() * sizeof(float));
  std::unique_ptr<Replica> replica;
  if (one.link != "none") replica = distribute(job, model, *optimizer, strategy_of(one));
  const auto train = [&](int steps) {
    take_steps(model, *optimizer, steps,
               [&] { replica ? void(replica->step()) : void(optimizer->step()); });
  };
  train(kSteps);
  const std::vector<double> after = measure();
  double peak = 0;  // the mean of all, as what they have in the end
  if (one.shard) {
    const PeakInBackward most(*model);
    train(1);
    peak = most.bytes() - before[static_cast<std::size_t>(job.rank())];
    control->all_reduce(buffer_of(std::span(&peak, 1)), ReduceOp::average).or_throw();
  }
  if (job.rank() != 0) return;
  std::ofstream rows(std::getenv(kRows), std::ios::app);
  const auto write = [&](double bytes, bool is_server, const char* role) {
    json row = row_of(one, bench, role, bytes, model_bytes,
                      expected(one, is_server, slots, bench.workers));
    if (one.shard) {
      row["peak_bytes"] = peak;
      row["expected_peak_bytes"] =
          expected_peak_of_shards(*one.shard, slots, bench.workers) * model_bytes;
    }
    rows << row << "\n";
  };
  const auto taken = [&](std::size_t member) { return after[member] - before[member]; };
  if (one.shard) {  // the mean of all: parts differ a little
    double all = 0;
    for (std::size_t member = 0; member < after.size(); ++member) all += taken(member);
    return write(all / static_cast<double>(after.size()), false, "worker");
  }
  write(taken(0), false, one.link == "none" ? "alone" : "worker");
  if (one.has_server()) write(taken(after.size() - 1), true, "server");
}

Table table_of_rows() {
  return {{{"", -8, 6},
           {"optimizer", -10, 9},
           {"links", -6, 5, 2},
           {"compensation", 12, 12, 4},
           {"merge", -6, 5, 3},
           {"shard", -10, 9},
           {"MB", 12, 8, 1},
           {"x model", 10, 7},
           {"should be", 10, 9},
           {"at most", 10, 7},
           {"should be", 10, 9}},
          room_here()};
}

void print_head(const MemoryBench& bench) {
  print_text(fmt::format(
      "a model of {}, {} workers and one server, or none where shard says what each keeps a part "
      "of; memory that training it takes beyond what the process had before, after a step, and "
      "with such parts at most while gradients come",
      size_word(bench.bytes), bench.workers));
  fmt::print("{}", table_of_rows().head());
}

void print_row(const json& row) {
  const double model = row.at("model_bytes");
  const double bytes = row.at("bytes"), expected = row.at("expected_bytes");
  const auto peak_in = [&](const char* name) {
    return row.contains(name) ? fmt::format("{:.2f}", row.at(name).get<double>() / model)
                              : std::string("-");
  };
  fmt::print("{}",
             table_of_rows().row(
                 {row.at("role"), row.at("optimizer"), row.at("link"),
                  fmt::format("{}", row.at("compensation").get<double>()), row.at("merge"),
                  row.at("shard"), fmt::format("{:.1f}", bytes / 1e6),
                  fmt::format("{:.2f}", bytes / model), fmt::format("{:.2f}", expected / model),
                  peak_in("peak_bytes"), peak_in("expected_peak_bytes")}));
}

std::vector<json> read_rows(const std::string& file) {
  std::vector<json> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

int launch_case(const MemoryBench& bench, const Case& one, std::size_t number,
                const std::string& rows, const std::vector<std::string>& command) {
  launch::LaunchOptions launch;
  launch.program = launch.server_program = command;
  launch.ranks = one.link == "none" ? 1 : bench.workers;
  launch.servers = one.has_server() ? 1 : 0;
  launch.links = one.link == "none" ? "auto" : one.link;
  launch.name = "asup bench";
  // torch for aarch64 takes memory from mimalloc, which is to give back at once what is free.
  launch.environment = {fmt::format("{}={}", kCase, number), fmt::format("{}={}", kRows, rows),
                        "OMP_NUM_THREADS=1", "MIMALLOC_PURGE_DELAY=0"};
  const launch::JobResult result = launch::run(launch);
  if (!result.message.empty()) fmt::print(stderr, "{}\n", result.message);
  return result.exit_status;
}

}  // namespace

int run_memory_bench(const MemoryBench& bench, const std::vector<std::string>& command) {
  require(bench.workers >= 1 && bench.workers <= 64, "--workers {}: between 1 and 64",
          bench.workers);
  require(bench.bytes >= 1 << 20, "--size {}: below a megabyte other things count for more",
          bench.bytes);
  const std::vector<Case> all = cases();
  if (const auto number = net::process_environment()(kCase)) {
    Job job = Job::join();
    take_part(job, bench, all.at(std::stoul(*number)));
    return 0;
  }
  const std::string file = std::filesystem::temp_directory_path() /
                           fmt::format("asup-bench-memory-{}.jsonl", ::getpid());
  print_head(bench);
  std::vector<json> rows;
  for (std::size_t number = 0; number < all.size(); ++number) {
    if (bench.only_shards && !all[number].shard) continue;
    const int status = launch_case(bench, all[number], number, file, command);
    const std::vector<json> found = read_rows(file);
    std::filesystem::remove(file);
    if (status != 0) return status;
    for (const json& row : found) print_row(row);
    std::fflush(stdout);
    rows.insert(rows.end(), found.begin(), found.end());
  }
  if (!bench.json.empty()) write_atomically(bench.json, json(rows).dump(2) + "\n");
  return 0;
}

}  // namespace asup::bench
