#include "asup/cli/bench_collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "asup/base/error.h"
#include "asup/cli/bench_limit.h"
#include "asup/cli/bench_together.h"
#include "asup/collective/choose.h"
#include "asup/collective/mesh_communicator.h"
#include "asup/collective/tuning/trial.h"
#include "asup/launch/launch.h"
#include "asup/net/inproc/wire.h"
#include "asup/net/mesh.h"

namespace asup::cli {
namespace {

using collective::Collective;
using collective::Spec;
using collective::tuning::Trial;

struct Operation {
  std::string_view name;
  Collective collective;
  double (*bus_factor)(int ranks);  // bytes a rank's link carries for each byte of the whole
};

constexpr Operation kOperations[] = {
    {"allreduce", Collective::all_reduce, [](int n) { return 2.0 * (n - 1) / n; }},
    {"reduce_scatter", Collective::reduce_scatter, [](int n) { return 1.0 * (n - 1) / n; }},
    {"allgather", Collective::all_gather, [](int n) { return 1.0 * (n - 1) / n; }},
    {"broadcast", Collective::broadcast, [](int) { return 1.0; }},
    {"barrier", Collective::barrier, [](int) { return 0.0; }},
};

const Operation& operation(const std::string& name) {
  std::string names;
  for (const Operation& op : kOperations) {
    if (op.name == name) return op;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", op.name);
  }
  throw BadInput(fmt::format("--op {}: there is {}", name, names));
}

struct Row {
  std::size_t bytes;
  std::string algorithm;
  double min_us, p50_us, p99_us, bus_gb_s;
  std::optional<double> share;  // of the limit
  std::string parts;            // "160 together": the bytes are in so many buffers
};

// Those that can serve, where `all` are asked for; "" is the choice of asup.
std::vector<std::string> algorithms_of(const CollectiveBench& bench, const Spec& spec) {
  if (bench.algorithms != std::vector<std::string>{"all"}) return bench.algorithms;
  std::vector<std::string> names;
  for (const collective::Algorithm& algorithm : collective::algorithms())
    if (can_serve(algorithm, spec)) names.emplace_back(algorithm.name);
  return names;
}

Row summarize(const std::vector<double>& sorted, std::size_t bytes, double bus_factor) {
  const auto at = [&](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))] * 1e6;
  };
  const double p50 = at(0.5);
  return {bytes, {},       at(0),
          p50,   at(0.99), bus_factor * static_cast<double>(bytes) / (p50 * 1e-6) / 1e9,
          {},    {}};
}

std::string human(std::size_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

std::string name_or_auto(const std::string& algorithm) {
  return algorithm.empty() ? "auto" : algorithm;
}

void write_json(const CollectiveBench& bench, const std::vector<Row>& rows) {
  auto list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back({{"op", bench.op},
                    {"algorithm", name_or_auto(row.algorithm)},
                    {"ranks", bench.ranks},
                    {"bytes", row.bytes},
                    {"link", bench.link},
                    {"buffers", bench.buffers},
                    {"peer", "asup"},
                    {"p50_us", row.p50_us},
                    {"min_us", row.min_us},
                    {"p99_us", row.p99_us},
                    {"bus_gb_s", row.bus_gb_s}});
    if (row.share) list.back()["share_of_limit"] = *row.share;
    if (!row.parts.empty()) list.back()["parts"] = row.parts;
  }
  std::ofstream file(bench.json);
  file << list.dump(2) << "\n";
  require(file.good(), "cannot write {}", bench.json);
}

void print_head(const CollectiveBench& bench) {
  fmt::print("{} of f32 on {} ranks over {}, {} buffers\n", bench.op, bench.ranks, bench.link,
             bench.buffers);
  fmt::print("{:>12} {:<18} {:>12} {:>12} {:>12} {:>10} {:>9}\n", "size", "algorithm", "min us",
             "p50 us", "p99 us", "bus GB/s", "of limit");
}

void print_row(const Row& row) {
  fmt::print("{:>12} {:<18} {:>12.2f} {:>12.2f} {:>12.2f} {:>10.2f} {:>9}\n", human(row.bytes),
             row.parts.empty() ? name_or_auto(row.algorithm) : row.parts, row.min_us, row.p50_us,
             row.p99_us, row.bus_gb_s, row.share ? fmt::format("{:.2f}", *row.share) : "-");
  std::fflush(stdout);
}

std::vector<Row> rows_of_parts(Communicator& communicator, const CollectiveBench& bench,
                               std::size_t bytes, double bus_factor) {
  std::vector<Row> rows;
  if (bench.together == 0) return rows;
  Together together(communicator, bytes, bench.together, bench.buffers == "shared");
  const double seconds = bench.quick ? 0.2 : 1.0;
  rows.push_back(summarize(together.times_of_one_call(seconds), bytes, bus_factor));
  rows.back().parts = fmt::format("{} together", bench.together);
  rows.push_back(summarize(together.times_of_calls(seconds), bytes, bus_factor));
  rows.back().parts = fmt::format("{} calls", bench.together);
  communicator.barrier().or_throw();  // nobody frees memory that another still reads
  return rows;
}

void take_part(Job& job, const CollectiveBench& bench) {
  const Operation& op = operation(bench.op);
  const bool first = job.rank() == 0;
  const auto limits = limits_from(net::process_environment()(kLimitsVariable));
  auto communicator = make_communicator(job);
  if (first) print_head(bench);
  std::vector<Row> rows;
  for (const std::size_t bytes : bench.sizes) {
    Trial trial(*communicator, op.collective, bytes, bench.buffers == "shared");
    Spec spec = trial.spec();
    spec.stage = job.mesh().shares_memory() && job.size() > 1;
    spec.shared = spec.shared && spec.stage;
    for (const std::string& algorithm : algorithms_of(bench, spec)) {
      trial.check_result(algorithm);
      rows.push_back(summarize(trial.times(algorithm, bench.quick ? 0.2 : 1.0), bytes,
                               op.bus_factor(job.size())));
      Row& row = rows.back();
      row.algorithm = algorithm;
      if (const auto limit = limits.find(bytes); limit != limits.end())
        row.share = limit->second / row.p50_us;
      if (first) print_row(row);
    }
    for (Row& row : rows_of_parts(*communicator, bench, bytes, op.bus_factor(job.size()))) {
      if (first) print_row(row);
      rows.push_back(std::move(row));
    }
    communicator->barrier().or_throw();  // nobody frees memory that another still reads
  }
  if (first && !bench.json.empty()) write_json(bench, rows);
}

int run_as_threads(const CollectiveBench& bench) {
  net::InprocHub hub;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<std::size_t>(bench.ranks));
  for (int rank = 0; rank < bench.ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        net::JoinOptions options;
        options.rank = rank;
        options.size = bench.ranks;
        options.links = net::LinkKind::inproc;
        options.hub = &hub;
        Job job = Job::join(options);
        take_part(job, bench);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) throw Error(error);
  return 0;
}

// A launcher has started the ranks, so it says how many there are.
int run_as_started(CollectiveBench bench, const net::JoinOptions& identity) {
  Job job = Job::join(identity);
  bench.ranks = job.size();
  take_part(job, bench);
  return 0;
}

int run_under_mpirun(CollectiveBench bench) {
  Job job = Job::join(
      net::identity_from(net::with_variable(net::process_environment(), "ASUP_LINKS", bench.link)));
  bench.ranks = job.size();
  bench.buffers = "private";
  take_part(job, bench);
  return 0;
}

}  // namespace

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    std::size_t number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const std::string_view unit(rest, static_cast<std::size_t>(word.data() + word.size() - rest));
    const int shift = unit.empty()  ? 0
                      : unit == "K" ? 10
                      : unit == "M" ? 20
                      : unit == "G" ? 30
                                    : -1;
    require(error == std::errc() && shift >= 0 && number >= 1 && number <= (1u << 20),
            "--sizes: '{}' is no size; write bytes as 512, 4K, 25M or 1G, separated by commas",
            word);
    require(number << shift >= sizeof(float), "--sizes: {} holds no element of 4 bytes", word);
    sizes.push_back(number << shift);
    begin = end + 1;
  }
  return sizes;
}

int run_collective_bench(const CollectiveBench& bench, const std::vector<std::string>& command) {
  operation(bench.op);
  require(bench.buffers == "shared" || bench.buffers == "private",
          "--buffers {}: there is shared and private", bench.buffers);
  require(
      bench.link == "shm" || bench.link == "tcp" || bench.link == "inproc" || bench.link == "mpi",
      "--link {}: there is shm, tcp, inproc and mpi", bench.link);
  require(bench.ranks >= 1 && bench.ranks <= 256, "--ranks {}: between 1 and 256", bench.ranks);
  require(bench.together >= 0 && bench.together <= 100000, "--together {}: between 1 and 100000",
          bench.together);
  require(bench.together == 0 || bench.op == "allreduce",
          "--together is for an allreduce, not for a {}", bench.op);
  for (const std::string& name : bench.algorithms)
    if (!name.empty() && name != "all")
      collective::find_algorithm(operation(bench.op).collective, name);
  if (bench.link == "mpi") return run_under_mpirun(bench);
  const net::JoinOptions identity = net::identity_from(net::process_environment());
  if (identity.size > 1) return run_as_started(bench, identity);
  const bool has_limit = bench.op == "allreduce" && bench.ranks > 1 && bench.link != "tcp";
  if (has_limit && !net::process_environment()(kLimitsVariable))
    setenv(kLimitsVariable,
           measure_limits(bench.ranks, bench.sizes, bench.buffers, bench.quick).c_str(), 1);
  if (bench.link == "inproc") return run_as_threads(bench);
  launch::LaunchOptions launch;
  launch.program = command;
  launch.ranks = bench.ranks;
  launch.links = bench.link;
  launch.inherit_rank_zero = true;
  launch.name = "asup bench";
  const launch::JobResult result = launch::run(launch);
  if (!result.message.empty()) fmt::print(stderr, "{}\n", result.message);
  return result.exit_status;
}

}  // namespace asup::cli
