#include "asup/bench/time_to_accuracy.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "asup/base/files.h"
#include "asup/bench/compare/accuracy_page.h"
#include "asup/bench/compare/accuracy_rows.h"
#include "asup/bench/compare/can_write.h"
#include "asup/bench/compare/tuned_rates.h"
#include "asup/bench/table.h"

namespace asup::bench {
namespace {

std::vector<WayRuns> ways_of(const TimeToAccuracyBench& bench) {
  std::vector<Way> ways =
      chosen(known_ways(), bench.ways.empty() ? usual_for_slow_links() : bench.ways, "--ways");
  for (const std::string& text : bench.more_ways) ways.push_back(parse_way(text));
  std::set<std::string> names;
  std::vector<WayRuns> all;
  for (const Way& way : ways) {
    require(names.insert(way.name).second, "the way {} is named twice", way.name);
    all.push_back({.way = way,
                   .computed = way.name == "allreduce" && bench.allreduce_steps > 0,
                   .optimizer = optimizer_of(bench.training, way),
                   .lr = rate_of(bench.training, way)});
  }
  return all;
}

AccuracyScene scene_of(const TimeToAccuracyBench& bench) {
  return {bench.training.workers, bench.slow, bench.training.sample_ms, bench.training.target};
}

std::string title_of(const TimeToAccuracyBench& bench) {
  const Training& training = bench.training;
  return fmt::format(
      "{} on {}, {} workers{}, links of {}, global batch {}, {} steps, learning rates {} ({}){}, "
      "{} "
      "tests, {} seed{}. A sample takes {:g} ms by real sleeps in forward and backward, so that "
      "the "
      "cores of this machine are not the limit; tests do not count.",
      training.model, training.data, training.workers,
      bench.slow > 1 ? fmt::format(", the last one {:g} times slower", bench.slow) : "",
      rate_word(parse_rate(bench.rate)), training.batch, training.steps,
      training.tunes ? "that were best on samples set aside from training" : "that are not tuned",
      training.schedule, training.flags.empty() ? "" : ", " + training.flags, training.tests,
      bench.seeds, bench.seeds > 1 ? "s" : "", training.sample_ms);
}

// What a run needs: hosts with slow links, and where all-reduce is computed, hosts without a limit.
struct Stage {
  ProgramRunner runner;
  VirtualHosts hosts;
  std::optional<VirtualHosts> unlimited;

  explicit Stage(const TimeToAccuracyBench& bench)
      : hosts(bench.training.workers, parse_rate(bench.rate)) {
    if (bench.allreduce_steps > 0) unlimited.emplace(bench.training.workers, 0);
  }
};

TrainingRun run_of(const TimeToAccuracyBench& bench, const WayRuns& way, int seed,
                   const VirtualHosts& hosts) {
  TrainingRun run{
      .name = fmt::format("{}-{}", way.way.name, seed), .way = way.way, .seed = seed, .lr = way.lr};
  if (bench.slow > 1)
    run.slowness = fmt::format("slow={}:{}", bench.training.workers - 1, bench.slow);
  run.hosts = &hosts;
  return run;
}

// A few steps on slow links for the time of a step, and a whole run on fast ones, without sleeps,
// for the rest. Both add up by the same algorithm, so that they have the same bits.
Figures compute(const TimeToAccuracyBench& bench, const WayRuns& way, int seed, Stage& stage) {
  TrainingRun timed = run_of(bench, way, seed, stage.hosts);
  TrainingRun whole = run_of(bench, way, seed, *stage.unlimited);
  timed.name += "-timed";
  whole.name += "-whole";
  whole.takes_its_time = false;
  timed.flags = whole.flags = {"--algorithm", "ring", "--log-every", "1"};
  timed.flags.insert(timed.flags.end(), {"--stop-at", std::to_string(bench.allreduce_steps)});
  const Training& training = bench.training;
  const Figures time = train(training, timed, stage.runner);
  const Figures steps = train(training, whole, stage.runner);
  const std::string folder = timed.folder(training);
  if (!same_losses(folder, whole.folder(training)))
    fmt::print(stderr, "seed {}: the run on fast links had other bits than the one on slow links\n",
               seed);
  return as_if_timed(steps, time, seconds_of_a_step(folder), training.target);
}

// Where links would take all the time, all-reduce has the steps that it has without a limit.
void tune(const TimeToAccuracyBench& bench, std::vector<WayRuns>& ways, Stage& stage) {
  TunedRates rates(bench.training.rates);
  for (WayRuns& way : ways) {
    const VirtualHosts& hosts = way.computed ? *stage.unlimited : stage.hosts;
    way.lr = rates.of(bench.training, run_of(bench, way, 1, hosts), stage.runner).lr;
  }
}

void check_flags(const TimeToAccuracyBench& bench) {
  bench.training.check();
  require(bench.seeds >= 1 && bench.seeds <= 1000, "--seeds {}: between 1 and 1000", bench.seeds);
  require(bench.slow >= 1 && bench.slow <= 1000,
          "--slow {}: the last worker takes 1 to 1000 times as long as the others", bench.slow);
  require(bench.allreduce_steps >= 0 && bench.allreduce_steps < bench.training.steps,
          "--compute-allreduce {}: fewer than the {} steps of a run", bench.allreduce_steps,
          bench.training.steps);
}

void write_results(const TimeToAccuracyBench& bench, const std::vector<WayRuns>& ways) {
  const AccuracyScene scene = scene_of(bench);
  if (!bench.html.empty())
    write_atomically(bench.html, accuracy_page(title_of(bench), scene, ways));
  if (bench.json.empty()) return;
  auto list = nlohmann::ordered_json::array();
  for (const AccuracyRow& row : accuracy_rows(scene, ways)) {
    nlohmann::ordered_json flat = accuracy_json(scene, row);
    flat["model"] = bench.training.model;
    flat["rate_bit_s"] = parse_rate(bench.rate);
    flat["steps"] = bench.training.steps;
    flat["tests"] = bench.training.tests;
    list.push_back(std::move(flat));
  }
  write_atomically(bench.json, list.dump(2) + "\n");
}

}  // namespace

int run_time_to_accuracy_bench(TimeToAccuracyBench bench) {
  if (bench.quick) {
    bench.seeds = 1;
    bench.training.steps = std::min(bench.training.steps, 100);
    bench.training.tests = std::min(bench.training.tests, 4);
    bench.training.tunes = false;
  }
  check_flags(bench);
  check_can_write("--html", bench.html);
  check_can_write("--json", bench.json);
  check_can_write("--rates", bench.training.rates);
  std::vector<WayRuns> ways = ways_of(bench);
  for (const WayRuns& each : ways)
    check_run(bench.training, {.name = each.way.name, .way = each.way});
  Stage stage(bench);
  print_text(title_of(bench));
  std::fflush(stdout);
  if (bench.training.tunes) tune(bench, ways, stage);
  // Ways by turns, so that a slow moment of the machine hits all.
  for (int seed = 1; seed <= bench.seeds; ++seed) {
    for (WayRuns& way : ways) {
      way.runs.push_back(way.computed ? compute(bench, way, seed, stage)
                                      : train(bench.training, run_of(bench, way, seed, stage.hosts),
                                              stage.runner));
      fmt::print(stderr, "seed {}: {}: {:.1f} s, {:.2f} %\n", seed, way.way.name,
                 way.runs.back().seconds, way.runs.back().accuracy * 100);
    }
    write_results(bench, ways);  // what there is so far: a long run may be broken off
  }
  const AccuracyScene scene = scene_of(bench);
  fmt::print("{}", accuracy_table(scene, accuracy_rows(scene, ways), room_here()));
  return 0;
}

}  // namespace asup::bench
