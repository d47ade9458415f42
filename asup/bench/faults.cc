#include "asup/bench/faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/compare/can_write.h"
#include "asup/bench/faults/job.h"
#include "asup/bench/table.h"

namespace asup::bench {
namespace {

const std::vector<FaultyWay>& known() {
  static const std::vector<FaultyWay> ways{
      {"allreduce", "", true, true},
      {"allreduce-tcp", "--links=tcp --bucket-mb=0.01", true, true},
      {"allreduce-int4", "--compress=int4", false, true},
      {"allreduce-shard", "--shard=optimizer", true, true},
      {"local", "--sync=local --every=4", false, true},
      {"diloco", "--sync=diloco --every=5", false, true},
      {"gossip", "--sync=gossip", false, true},
      {"adpsgd", "--sync=adpsgd --graph=exponential"},
      {"bsp", "--sync=server"},
      {"asup", "--sync=asup --keep-servers"}};
  return ways;
}

std::vector<FaultyWay> chosen(const std::vector<std::string>& names) {
  if (names.empty()) return known();
  std::vector<FaultyWay> ways;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known(), name, &FaultyWay::name);
    require(found != known().end(), "--ways {}: there is {}", name,
            fmt::join(names_of_faulty_ways(), ", "));
    ways.push_back(*found);
  }
  return ways;
}

// Of all jobs by one way.
struct Tally {
  FaultyWay way;
  int jobs = 0, kills = 0, halts = 0, joins = 0, hung = 0, failed = 0, differ = 0;
  std::int64_t lost_steps = 0;
  std::vector<double> recovery_seconds{};

  void add(const FaultyJobEnd& end) {
    ++jobs;
    kills += end.kills;
    halts += end.halts;
    joins += end.joins;
    hung += end.hung;
    failed += !end.hung && end.status != 0;
    differ += end.differs;
    lost_steps += end.lost_steps;
    recovery_seconds.insert(recovery_seconds.end(), end.recovery_seconds.begin(),
                            end.recovery_seconds.end());
  }
  bool is_well() const { return hung == 0 && failed == 0 && differ == 0 && lost_steps == 0; }
  // Of the seconds, in milliseconds; NaN where nothing was seen.
  double recovery_ms(double share) const {
    if (recovery_seconds.empty()) return std::nan("");
    auto sorted = recovery_seconds;
    std::ranges::sort(sorted);
    const auto place =
        static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
    return sorted[place] * 1e3;
  }
};

std::string milliseconds(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.0f}", value);
}

Table table() {
  return {{{"way", -15, 5},
           {"jobs", 5, 4},
           {"kills", 6, 5},
           {"halts", 6, 5, 2},
           {"joins", 6, 5, 2},
           {"hung", 5, 4},
           {"failed", 7, 6},
           {"wrong", 6, 5},
           {"lost steps", 11, 10, 1},
           {"p50 ms", 7, 6},
           {"p99 ms", 7, 6}},
          room_here()};
}

std::string line_of(const Tally& tally) {
  return table().row({tally.way.name, std::to_string(tally.jobs), std::to_string(tally.kills),
                      std::to_string(tally.halts), std::to_string(tally.joins),
                      std::to_string(tally.hung), std::to_string(tally.failed),
                      tally.way.follows_one ? std::to_string(tally.differ) : "-",
                      std::to_string(tally.lost_steps), milliseconds(tally.recovery_ms(0.5)),
                      milliseconds(tally.recovery_ms(0.99))});
}

nlohmann::ordered_json json_of(const Tally& tally) {
  nlohmann::ordered_json row{{"way", tally.way.name},  {"jobs", tally.jobs},
                             {"kills", tally.kills},   {"halts", tally.halts},
                             {"joins", tally.joins},   {"hung", tally.hung},
                             {"failed", tally.failed}, {"lost_steps", tally.lost_steps}};
  if (tally.way.follows_one) row["wrong"] = tally.differ;
  if (!tally.recovery_seconds.empty()) {
    row["recovery_p50_ms"] = tally.recovery_ms(0.5);
    row["recovery_p99_ms"] = tally.recovery_ms(0.99);
  }
  return row;
}

void write_rows(const std::string& file, const std::vector<Tally>& tallies) {
  if (file.empty()) return;
  auto rows = nlohmann::ordered_json::array();
  for (const Tally& tally : tallies) rows.push_back(json_of(tally));
  write_atomically(file, rows.dump(2) + "\n");
}

// A run that has not come to what it should is kept to be looked at.
void tell(const FaultyJob& job, const FaultyJobEnd& end) {
  const std::string what = end.hung             ? "hung"
                           : end.status != 0    ? fmt::format("ended with status {}", end.status)
                           : end.differs        ? "has other losses than one without faults"
                           : end.lost_steps > 0 ? fmt::format("lost {} steps", end.lost_steps)
                                                : "";
  if (!what.empty())
    fmt::print(stderr, "{}: a job {}; it is in {}, its log is {}.log\n", job.way.name, what,
               job.folder, job.folder);
}

}  // namespace

void FaultsBench::check() const {
  (void)chosen(ways);
  require(seconds > 0, "--seconds {:g}: above 0", seconds);
  require(workers >= 2 && workers <= 24, "--workers {}: between 2 and 24", workers);
  require(steps >= 100 && steps <= 1'000'000, "--steps {}: between 100 and 1000000", steps);
}

std::vector<std::string> names_of_faulty_ways() {
  std::vector<std::string> names;
  for (const FaultyWay& way : known()) names.push_back(way.name);
  return names;
}

int run_faults_bench(const FaultsBench& bench) {
  bench.check();
  check_can_write("--json", bench.json);
  ProgramRunner runner;
  print_text(fmt::format(
      "Jobs of {} workers and {} steps. Workers are killed, or halted for up to half a second, at "
      "random moments, until one is left at least; sometimes another joins. Servers are left "
      "alone: a lost one ends the job. Steps have 24 samples of half a millisecond. The last "
      "columns are from a kill to the end of the next step, and two steps more.",
      bench.workers, bench.steps));
  FaultyJob job{.workers = bench.workers, .steps = bench.steps, .seed = bench.seed};
  job.folder = bench.folder + "/undisturbed";
  const auto undisturbed = losses_of_undisturbed(job, runner);
  check(undisturbed.has_value(), "a job without faults has failed: {}.log says why", job.folder);
  std::vector<Tally> tallies;
  for (const FaultyWay& way : chosen(bench.ways)) tallies.push_back({.way = way});
  int number = 0;
  for (const Deadline end = after(Seconds(bench.seconds)); Clock::now() < end; ++number) {
    Tally& tally = tallies[static_cast<std::size_t>(number) % tallies.size()];
    job.way = tally.way;
    job.moments = bench.seed * 1'000'003 + static_cast<std::uint64_t>(number);
    job.folder = fmt::format("{}/{}-{}", bench.folder, tally.way.name, number);
    const FaultyJobEnd ended = run_faulty_job(job, *undisturbed, runner);
    tally.add(ended);
    tell(job, ended);
    if (ended.is_well()) remove_faulty_job(job);
    write_rows(bench.json, tallies);
  }
  fmt::print("{}", table().head());
  for (const Tally& tally : tallies) fmt::print("{}", line_of(tally));
  return std::ranges::all_of(tallies, &Tally::is_well) ? 0 : 1;
}

}  // namespace asup::bench
