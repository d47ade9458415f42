#include "asup/bench/collective.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "asup/base/error.h"
#include "asup/bench/collective_names.h"
#include "asup/bench/limit.h"
#include "asup/bench/sizes.h"
#include "asup/bench/table.h"
#include "asup/bench/timed_job.h"
#include "asup/bench/together.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/tuning/choose.h"
#include "asup/collective/tuning/trial.h"
#include "asup/net/transport/inproc/wire.h"
#include "asup/net/transport/mesh.h"

namespace asup::bench {
namespace {

using collective::Collective;
using collective::Spec;
using collective::tuning::Trial;

// Bytes that a rank's link carries for each byte of the whole.
double bus_factor(Collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return others;
    case Collective::broadcast:
      return 1;
    default:  // a barrier
      return 0;
  }
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

Row summarize(const std::vector<double>& sorted, std::size_t bytes, double factor) {
  const auto at = [&](double share) { return at_share(sorted, share) * 1e6; };
  const double p50 = at(0.5);
  return {bytes, {}, at(0), p50, at(0.99), factor * static_cast<double>(bytes) / (p50 * 1e-6) / 1e9,
          {},    {}};
}

std::string name_or_auto(const std::string& algorithm) {
  return algorithm.empty() ? "auto" : algorithm;
}

void write_json(const CollectiveBench& bench, const std::vector<Row>& rows) {
  auto list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back({{"op", word_for(bench.collective)},
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
  write_rows(bench.json, list);
}

Table table_of_rows() {
  return {{{"size", 12, 5},
           {"algorithm", -18, 18},
           {"min us", 12, 10, 3},
           {"p50 us", 12, 10},
           {"p99 us", 12, 10, 4},
           {"bus GB/s", 10, 8, 1},
           {"of limit", 9, 8, 2}},
          room_here()};
}

void print_head(const CollectiveBench& bench) {
  print_text(fmt::format("{} of f32 on {} ranks over {}, {} buffers", word_for(bench.collective),
                         bench.ranks, bench.link, bench.buffers));
  fmt::print("{}", table_of_rows().head());
}

void print_row(const Row& row) {
  const auto figure = [](double value) { return fmt::format("{:.2f}", value); };
  fmt::print("{}",
             table_of_rows().row({size_word(row.bytes),
                                  row.parts.empty() ? name_or_auto(row.algorithm) : row.parts,
                                  figure(row.min_us), figure(row.p50_us), figure(row.p99_us),
                                  figure(row.bus_gb_s), row.share ? figure(*row.share) : "-"}));
  std::fflush(stdout);
}

std::vector<Row> rows_of_parts(Communicator& communicator, const CollectiveBench& bench,
                               std::size_t bytes, double factor) {
  std::vector<Row> rows;
  if (bench.together == 0) return rows;
  Together together(communicator, bytes, bench.together, bench.buffers == "shared");
  const double seconds = bench.quick ? 0.2 : 1.0;
  rows.push_back(summarize(together.times_of_one_call(seconds), bytes, factor));
  rows.back().parts = fmt::format("{} together", bench.together);
  rows.push_back(summarize(together.times_of_calls(seconds), bytes, factor));
  rows.back().parts = fmt::format("{} calls", bench.together);
  communicator.barrier().or_throw();  // nobody frees memory that another still reads
  return rows;
}

void take_part(Job& job, const CollectiveBench& bench) {
  const bool first = job.rank() == 0;
  const auto limits = limits_from(net::process_environment()(kLimitsVariable));
  auto communicator = make_communicator(job);
  if (first) print_head(bench);
  const double factor = bus_factor(bench.collective, job.size());
  std::vector<Row> rows;
  for (const std::size_t bytes : bench.sizes) {
    Trial trial(*communicator, bench.collective, bytes, bench.buffers == "shared");
    Spec spec = trial.spec();
    spec.stage = job.mesh().shares_memory() && job.size() > 1;
    spec.shared = spec.shared && spec.stage;
    for (const std::string& algorithm : algorithms_of(bench, spec)) {
      trial.check_result(algorithm);
      rows.push_back(summarize(trial.times(algorithm, bench.quick ? 0.2 : 1.0), bytes, factor));
      Row& row = rows.back();
      row.algorithm = algorithm;
      if (const auto limit = limits.find(bytes); limit != limits.end())
        row.share = limit->second / row.p50_us;
      if (first) print_row(row);
    }
    for (Row& row : rows_of_parts(*communicator, bench, bytes, factor)) {
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

int run_collective_bench(const CollectiveBench& bench, const std::vector<std::string>& command) {
  require(collective::tuning::has_trial(bench.collective),
          "--op {}: there is allreduce, reduce_scatter, allgather, broadcast and barrier",
          word_for(bench.collective));
  require(bench.buffers == "shared" || bench.buffers == "private",
          "--buffers {}: there is shared and private", bench.buffers);
  require(
      bench.link == "shm" || bench.link == "tcp" || bench.link == "inproc" || bench.link == "mpi",
      "--link {}: there is shm, tcp, inproc and mpi", bench.link);
  require(bench.ranks >= 1 && bench.ranks <= 256, "--ranks {}: between 1 and 256", bench.ranks);
  require(bench.together >= 0 && bench.together <= 100000, "--together {}: between 1 and 100000",
          bench.together);
  require(bench.together == 0 || bench.collective == Collective::all_reduce,
          "--together is for an allreduce, not for a {}", word_for(bench.collective));
  for (const std::string& name : bench.algorithms)
    if (!name.empty() && name != "all") collective::find_algorithm(bench.collective, name);
  if (bench.link == "mpi") return run_under_mpirun(bench);
  const net::JoinOptions identity = net::identity_from(net::process_environment());
  if (identity.size > 1) return run_as_started(bench, identity);
  const bool has_limit =
      bench.collective == Collective::all_reduce && bench.ranks > 1 && bench.link != "tcp";
  if (has_limit && !net::process_environment()(kLimitsVariable))
    setenv(
        kLimitsVariable,
        measure_limits("bench_limit", bench.ranks, bench.sizes, bench.buffers, bench.quick).c_str(),
        1);
  if (bench.link == "inproc") return run_as_threads(bench);
  return run_as_job(command, bench.ranks, /*servers=*/0, bench.link);
}

}  // namespace asup::bench
