// asup tune: measures the links between the ranks, prices every algorithm, tries every one, and
// remembers the rates, by which jobs on the same hosts choose from then on.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/collective_names.h"
#include "asup/bench/sizes.h"
#include "asup/cli/command.h"
#include "asup/cli/usage.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/collective/tuning/cache.h"
#include "asup/collective/tuning/measure.h"
#include "asup/collective/tuning/survey.h"
#include "asup/collective/tuning/trial.h"
#include "asup/launch/launch.h"
#include "asup/net/transport/mesh.h"

namespace asup::cli {
namespace {

namespace tuning = collective::tuning;
using collective::Rates;
using tuning::SurveyCell;
using tuning::SurveyRow;

const std::vector<Example> kExamples{
    {"asup tune -n 4", "four ranks on this host"},
    {"asup tune -n 4 --link tcp", "the same over TCP"},
    {"mpirun -n 4 asup tune --link mpi", "the same over MPI"},
    {"asup tune --hosts alpha:2,beta:2", "two on each of two hosts"}};

constexpr const char* kFooter = R"(
Each cell has the time by the prices and the time by the clock, in microseconds. * marks what the
prices pick; ! a pick that took over a tenth longer than the best.)";

struct TuneFlags {
  std::string op = "allreduce", sizes, hosts, link = "auto", buffers = "auto", json;
  int ranks = 0;
  bool quick = false;
};

void print_head(const std::vector<const collective::Algorithm*>& columns) {
  fmt::print("{:>8}", "size");
  for (const auto* algorithm : columns) fmt::print(" {:>24}", algorithm->name);
  fmt::print("\n");
}

void print_row(const SurveyRow& row) {
  fmt::print("{:>8}", bench::size_word(row.bytes));
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    const SurveyCell& cell = row.cells[i];
    const bool picked = i == row.picked;
    fmt::print(" {:>10.1f} / {:>9.1f}{}", cell.predicted * 1e6, cell.measured * 1e6,
               !picked          ? "  "
               : row.is_wrong() ? "*!"
                                : "* ");
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void print_verdict(const std::vector<SurveyRow>& rows) {
  int wrong = 0;
  for (const SurveyRow& row : rows) {
    if (!row.is_wrong()) continue;
    ++wrong;
    const SurveyCell &pick = row.cells[row.picked], &best = row.cells[row.best];
    fmt::print("{}: the prices pick {}, which took {:.1f} us; {} took {:.1f} us: {:.0f} % lost\n",
               bench::size_word(row.bytes), pick.algorithm->name, pick.measured * 1e6,
               best.algorithm->name, best.measured * 1e6, row.lost() * 100);
  }
  fmt::print("the prices pick the best, within a tenth, at {} of {} sizes\n",
             rows.size() - static_cast<std::size_t>(wrong), rows.size());
}

nlohmann::json rows_of(const TuneFlags& flags, const std::vector<SurveyRow>& rows, int ranks,
                       const std::string& link, bool shared) {
  auto list = nlohmann::json::array();
  for (const SurveyRow& row : rows)
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      list.push_back({{"op", bench::word_for(bench::collective_of(flags.op))},
                      {"algorithm", row.cells[i].algorithm->name},
                      {"ranks", ranks},
                      {"bytes", row.bytes},
                      {"link", link},
                      {"buffers", shared ? "shared" : "private"},
                      {"predicted_us", row.cells[i].predicted * 1e6},
                      {"p50_us", row.cells[i].measured * 1e6},
                      {"picked", i == row.picked},
                      {"best", i == row.best}});
  return list;
}

void remember(const tuning::Surroundings& around, const Rates& rates) {
  const auto cache = tuning::RatesCache::of_user();
  const std::string file = cache.file(around.key());
  cache.remember(around.key(), rates);
  if (cache.find(around.key()) == rates)
    fmt::print("remembered in {}: jobs on these hosts choose by it from now on\n", file);
  else
    fmt::print("not remembered: {}\n", file.empty() ? "neither XDG_CACHE_HOME nor HOME is set"
                                                    : file + " cannot be written");
}

void take_part(Job& job, const TuneFlags& flags, const std::vector<std::size_t>& sizes) {
  const bool first = job.rank() == 0;
  auto communicator = make_communicator(job);
  const tuning::Surroundings around = tuning::surroundings_of(job);
  const auto start = Clock::now();
  const Rates rates = tuning::measure(*communicator, around);
  const double seconds = seconds_since(start);
  const bool reachable = job.mesh().shares_memory() && job.size() > 1;
  require(flags.buffers != "shared" || reachable,
          "--buffers shared: ranks on several hosts or linked by TCP share no memory");
  tuning::SurveyOptions options;
  options.collective = bench::collective_of(flags.op);
  options.sizes = sizes;
  options.stage = reachable;
  options.shared = reachable && flags.buffers != "private";
  options.seconds = flags.quick ? 0.01 : 0.2;
  if (first) {
    fmt::print("{}, measured in {:.0f} ms\n{}\n{} of f32, {} buffers: predicted / measured us\n",
               around.key(), seconds * 1e3, describe(rates), bench::word_for(options.collective),
               options.shared ? "shared" : "private");
    std::fflush(stdout);
  }
  bool headed = false;
  const auto rows =
      tuning::survey(*communicator, around, rates, options, [&](const SurveyRow& row) {
        if (!first) return;
        std::vector<const collective::Algorithm*> columns;
        for (const SurveyCell& cell : row.cells) columns.push_back(cell.algorithm);
        if (!std::exchange(headed, true)) print_head(columns);
        print_row(row);
      });
  if (!first) return;
  print_verdict(rows);
  if (job.size() > 1) remember(around, rates);
  if (!flags.json.empty())
    write_atomically(
        flags.json,
        rows_of(flags, rows, job.size(), around.near_link, options.shared).dump(1) + "\n");
}

// The sizes that the flags ask for; other flags are checked too.
std::vector<std::size_t> sizes_of(const TuneFlags& flags) {
  const auto op = bench::collective_of(flags.op);
  require(tuning::has_trial(op) && op != collective::Collective::barrier,
          "--op {}: there is allreduce, reduce_scatter, allgather and broadcast", flags.op);
  return bench::parse_sizes(!flags.sizes.empty() ? flags.sizes
                            : flags.quick        ? "1K,64K,4M"
                                                 : "1K,16K,256K,4M,25M,100M");
}

int tune(const TuneFlags& flags, const std::vector<std::string>& arguments) {
  const auto sizes = sizes_of(flags);
  auto environment = net::process_environment();
  const bool by_mpirun = flags.link == "mpi";
  if (by_mpirun) environment = net::with_variable(environment, "ASUP_LINKS", flags.link);
  if (by_mpirun || environment("ASUP_RANK")) {
    Job job = Job::join(net::identity_from(environment));
    take_part(job, flags, sizes);
    return 0;
  }
  launch::LaunchOptions launch;
  launch.program = {"/proc/self/exe"};
  launch.program.insert(launch.program.end(), arguments.begin(), arguments.end());
  if (!flags.hosts.empty()) launch.hosts = launch::parse_hosts(flags.hosts);
  launch.ranks = flags.ranks > 0 || !flags.hosts.empty() ? flags.ranks : 2;
  launch.links = flags.link;
  launch.inherit_rank_zero = true;
  launch.name = "asup tune";
  const launch::JobResult result = launch::run(launch);
  if (!result.message.empty()) print_last_line("asup tune", result.message);
  return result.exit_status;
}

}  // namespace

Command add_tune_command(CLI::App& app, const std::vector<std::string>& arguments) {
  CLI::App* command =
      app.add_subcommand("tune", "Measure the links and every algorithm, to choose by from now on");
  set_usage(*command, "Usage: asup tune [-n N] [--hosts a,b] [flags]");
  command->footer(kFooter);
  auto flags = std::make_shared<TuneFlags>();
  command
      ->add_option("-n,--ranks", flags->ranks, "How many ranks (default: 2, or the hosts' slots)")
      ->type_name("N")
      ->check(between(1, 1'000'000));
  command->add_option("--hosts", flags->hosts, "Hosts to run on, over ssh: a,b or a:2,b:4")
      ->type_name("a,b");
  command
      ->add_option("--link", flags->link,
                   "How ranks are linked: auto (default), shm, tcp; mpi: under mpirun")
      ->type_name("KIND")
      ->check(CLI::IsMember({"auto", "shm", "tcp", "mpi"}));
  command
      ->add_option("--op", flags->op, "allreduce (default), reduce_scatter, allgather or broadcast")
      ->type_name("OP");
  command->add_option("--sizes", flags->sizes, "Bytes of the whole buffer: 1K,4M,100M")
      ->type_name("LIST");
  command
      ->add_option("--buffers", flags->buffers,
                   "shared: memory that all ranks reach (default where there is such); private")
      ->type_name("KIND")
      ->check(CLI::IsMember({"auto", "shared", "private"}));
  command->add_option("--json", flags->json, "Write the cells to this file too")->type_name("FILE");
  command->add_flag("--quick", flags->quick, "Fewer sizes, less time for each");
  return {command, [flags, arguments] { return tune(*flags, arguments); },
          [flags] { sizes_of(*flags); }, kExamples};
}

}  // namespace asup::cli
