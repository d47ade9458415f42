#include "asup/bench/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/compare/can_write.h"
#include "asup/bench/faults/program.h"
#include "asup/bench/faults/rate.h"
#include "asup/bench/faults/tally.h"
#include "asup/net/membership/join_options.h"

namespace asup::bench {
namespace {

constexpr std::int64_t kSteps = 300;
constexpr std::int64_t kStepsBetweenHosts = 2000;  // some seconds beside those of a cut link
constexpr double kSeconds = 60;

FaultyJob job_of(const FaultsBench& bench) {
  FaultyJob job{.model = bench.model, .workers = bench.workers, .steps = bench.steps};
  job.is_slow = bench.model == "mlp";
  return job;
}

// Those that can be trained so; what is left out is said, or refused where it was asked for.
std::vector<FaultTally> tallies_of(const FaultsBench& bench, const VirtualHosts* hosts) {
  std::vector<FaultTally> tallies;
  FaultyJob job = job_of(bench);
  job.hosts = hosts;
  for (const FaultyWay& way : chosen_faulty_ways(bench.ways)) {
    job.way = way;
    const std::string why_not = job.why_not();
    require(why_not.empty() || bench.ways.empty(), "--ways {}: {}", way.name, why_not);
    if (why_not.empty())
      tallies.push_back({.way = way});
    else
      print_text(fmt::format("without {}: {}", way.name, why_not));
  }
  require(!tallies.empty(), "--workers {}: no way goes with so many", bench.workers);
  return tallies;
}

template <typename Row>
void write_rows(const std::string& file, const std::vector<Row>& all) {
  if (file.empty()) return;
  auto rows = nlohmann::ordered_json::array();
  for (const Row& row : all) rows.push_back(json_of(row));
  write_atomically(file, rows.dump(2) + "\n");
}

void introduce(const FaultsBench& bench) {
  print_text(fmt::format(
      "Jobs of {} workers and {} steps. Workers are killed, some in a row, or halted for up to "
      "half a second, at random moments, until one is left at least{} The last "
      "columns are from a kill to the end of the first step that begins behind it, on the slowest "
      "of those who are left.",
      bench.workers, bench.steps,
      bench.hosts > 0 ? ". Each has a host of its own, one of which loses its link, or that to one "
                        "other host, for good or for some seconds."
                      : "; others join."));
}

int sum_up(const std::vector<FaultTally>& tallies) {
  fmt::print("{}", fault_table().head());
  FaultCounts all;
  int jobs = 0, unwell = 0;
  for (const FaultTally& tally : tallies) {
    fmt::print("{}", line_of(tally));
    all.add(tally.counts);
    jobs += tally.jobs;
    unwell += static_cast<int>(tally.troubles.size());
  }
  fmt::print("{} faults in {} jobs, of which {} came to something else than they should\n",
             all.all(), jobs, unwell);
  return unwell > 0;
}

class FaultSeries {
 public:
  explicit FaultSeries(const FaultsBench& bench) : bench_(bench) {
    if (bench.hosts > 0) hosts_.emplace(bench.hosts, 0);
    tallies_ = tallies_of(bench, hosts_ ? &*hosts_ : nullptr);
  }

  int run() {
    introduce(bench_);
    FaultyJob job = job_of(bench_);
    job.folder = bench_.folder + "/undisturbed";
    const Undisturbed undisturbed = run_undisturbed(job, runner_);
    for (std::uint64_t number = 0; goes_on(); ++number) {
      FaultTally& tally = tallies_[number % tallies_.size()];
      job.way = tally.way;
      job.hosts = hosts_ ? &*hosts_ : nullptr;
      job.moments = bench_.seed * 1'000'003 + number;
      job.folder = fmt::format("{}/{}-{}", bench_.folder, tally.way.name, number);
      const auto end = run_faulty_job(job, undisturbed, runner_, hosts_ ? &*hosts_ : nullptr);
      tally.add(job, end);
      faults_ += end.counts.all();
      if (end.is_well())
        remove_faulty_job(job);
      else
        fmt::print(stderr, "{}\n", tally.troubles.back());
      write_rows(bench_.json, tallies_);
    }
    return sum_up(tallies_);
  }

 private:
  bool goes_on() const {
    const bool has_time = !bench_.seconds || seconds_since(begun_) < *bench_.seconds;
    return has_time && (bench_.faults == 0 || faults_ < bench_.faults);
  }

  const FaultsBench& bench_;
  ProgramRunner runner_;
  std::vector<FaultTally> tallies_;
  std::optional<VirtualHosts> hosts_;
  std::int64_t faults_ = 0;
  const Clock::time_point begun_ = Clock::now();
};

// What losses at a given rate cost, by each of the ways.
int run_rates(const FaultsBench& bench) {
  print_text(
      fmt::format("A job of {} workers that loses one every {:g} s and gets another, for {:g} s, "
                  "beside one that is left alone, by "
                  "turns; steps a second.",
                  bench.workers, bench.every, *bench.seconds));
  ProgramRunner runner;
  std::vector<FaultRate> rates;
  fmt::print("{}", fault_rate_table().head());
  for (const FaultyWay& way : chosen_faulty_ways(bench.ways)) {
    FaultyJob job = job_of(bench);
    job.way = way;
    job.moments = bench.seed;
    job.folder = fmt::format("{}/{}-rate", bench.folder, way.name);
    rates.push_back(measure_fault_rate(job, bench.every, *bench.seconds, runner));
    fmt::print("{}", line_of(rates.back()));
    std::fflush(stdout);
    if (!rates.back().trouble.empty())
      fmt::print(stderr, "{}: {}\n", way.name, rates.back().trouble);
    write_rows(bench.json, rates);
  }
  return std::ranges::any_of(rates, [](const FaultRate& rate) { return !rate.trouble.empty(); });
}

}  // namespace

void FaultsBench::check() const {
  (void)chosen_faulty_ways(ways);
  check_model(model);
  require(!seconds || *seconds > 0, "--seconds {:g}: above 0", seconds.value_or(0));
  require(every == 0 || every >= 5, "--every {:g}: 5 seconds or more, in which a newcomer gets in",
          every);
  require(every == 0 || (hosts == 0 && faults == 0),
          "--every goes with neither --hosts nor --faults: its faults come by time");
  for (const FaultyWay& way : chosen_faulty_ways(ways))
    require(every == 0 || ways.empty() || way.takes_in(), "--every --ways {}: it takes nobody in",
            way.name);
  require(faults >= 0, "--faults {}: above 0", faults);
  require(workers >= 2 && workers <= 24, "--workers {}: between 2 and 24", workers);
  require(hosts == 0 || (hosts >= 2 && hosts <= 24), "--hosts {}: between 2 and 24", hosts);
  require(steps == 0 || (steps >= 100 && steps <= 1'000'000), "--steps {}: between 100 and 1000000",
          steps);
}

int run_faults_bench(FaultsBench bench) {
  if (bench.steps == 0) bench.steps = bench.hosts > 0 ? kStepsBetweenHosts : kSteps;
  if (const auto folder = net::process_environment()(kProgramVariable); folder && !folder->empty())
    return run_faulty_program(*folder, bench.steps);
  bench.check();
  check_can_write("--json", bench.json);
  if (!bench.seconds && bench.faults == 0) bench.seconds = kSeconds;
  if (bench.hosts > 0) bench.workers = bench.hosts;
  bench.folder = std::filesystem::absolute(bench.folder);
  if (bench.every == 0) return FaultSeries(bench).run();
  if (bench.ways.empty()) bench.ways = {"allreduce"};
  return run_rates(bench);
}

}  // namespace asup::bench
