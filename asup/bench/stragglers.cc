#include "asup/bench/stragglers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/numbers.h"
#include "asup/bench/compare/tuned_rates.h"
#include "asup/bench/spread.h"
#include "asup/bench/table.h"

namespace asup::bench {
namespace {

using nlohmann::json;

struct Scene {
  std::string name;
  // ASUP_INJECTED_SLOWNESS, but for the time of a sample (injected_slowness.h).
  std::string slowness;
  double summed_speed;  // of all workers, in those of one that is not slow, over the whole run
  double bits_per_second = 0;  // above 0: workers have hosts of their own, with such links
};

// Of a pipeline over half of the workers, these are one group, or some groups.
std::string every_other_is_slow(int workers) {
  std::vector<std::string> slow;
  for (int worker = 1; worker < workers; worker += 2)
    slow.push_back(fmt::format("slow={}:4", worker));
  return fmt::format("{}", fmt::join(slow, " "));
}

// The last worker is the slow one.
std::vector<Scene> scenes_of(int workers) {
  const int last = workers - 1;
  const double others = workers - 1;
  const int half = workers / 2;
  return {{"equal", "", others + 1},
          {"slow", fmt::format("slow={}:4", last), others + 0.25},
          {"half", every_other_is_slow(workers), workers - half + half * 0.25},
          // Stands still for 20 batches, once in 40: a third of the speed of the others.
          {"pauses", fmt::format("pause={}:40:20", last), others + 1 / 1.5},
          {"changes", fmt::format("slow={}:4:0.33:0.67", last), others + 0.66 + 0.34 / 4},
          // The same from outside, by SIGSTOP and SIGCONT.
          {"halted", fmt::format("halt={}:300:100:0.33:0.67", last), others + 0.66 + 0.34 / 4},
          // A server beside each worker.
          {"network", "", others + 1, 1e9}};
}

std::vector<Way> ways_of(const StragglersBench& bench) {
  return chosen(known_ways(), bench.ways.empty() ? usual_for_stragglers() : bench.ways, "--ways");
}

// Those that were asked for; where none were, all that this machine can make.
std::vector<Scene> set_up_scenes(const StragglersBench& bench, std::optional<VirtualHosts>& hosts) {
  const std::vector<Scene> all = scenes_of(bench.training.workers);
  std::vector<Scene> scenes;
  for (const Scene& scene : bench.scenes.empty() ? all : chosen(all, bench.scenes, "--scenes")) {
    try {
      if (scene.bits_per_second > 0 && !hosts)
        hosts.emplace(bench.training.workers, scene.bits_per_second);
      scenes.push_back(scene);
    } catch (const BadInput& error) {
      if (!bench.scenes.empty()) throw;
      print_text(fmt::format("without the scene {}: {}", scene.name, error.what()));
    }
  }
  return scenes;
}

struct Row {
  Scene scene;
  Way way;
  std::string optimizer;
  double lr;
  std::vector<Figures> results;
};

// What each way trains with, in every scene: tuned while all workers are equal.
std::vector<double> rates_of(const Training& training, const std::vector<Way>& ways,
                             ProgramRunner& runner) {
  TunedRates tuned(training.rates);
  std::vector<double> rates;
  for (const Way& way : ways)
    rates.push_back(training.tunes ? tuned.of(training, {.name = way.name, .way = way}, runner).lr
                                   : rate_of(training, way));
  return rates;
}

std::optional<Spread> time_of(const Row& row) {
  std::vector<double> seconds;
  for (const Figures& result : row.results) {
    if (!result.seconds_to_target) return std::nullopt;
    seconds.push_back(*result.seconds_to_target);
  }
  return spread_of(seconds);
}

Spread over(const Row& row, const std::function<double(const Figures&)>& figure) {
  std::vector<double> values;
  for (const Figures& result : row.results) values.push_back(figure(result));
  return spread_of(values);
}

// Samples a second, as a share of what all workers could do together if none ever waited. In a
// pipeline a sample takes its time on each worker of a group.
Spread speed_of(const StragglersBench& bench, const Row& row) {
  const std::string stages = value_of(words_of(bench.training.flags), "--pipeline");
  const double possible = row.scene.summed_speed * 1000 / bench.training.sample_ms /
                          number_in<double>(stages).value_or(1);
  return over(row, [&](const Figures& result) {
    return result.diverged ? 0 : result.samples / result.seconds / possible;
  });
}

std::ptrdiff_t diverged(const Row& row) {
  return std::count_if(row.results.begin(), row.results.end(),
                       [](const Figures& result) { return result.diverged; });
}

std::vector<double> accuracies(const Row& row) {
  std::vector<double> values;
  for (const Figures& result : row.results) values.push_back(result.accuracy * 100);
  return values;
}

// Points of accuracy beside the scene's bsp, seed by seed; nothing where there is none.
std::optional<Spread> beside_bsp(const Row& row, const std::vector<Row>& rows) {
  for (const Row& other : rows)
    if (other.scene.name == row.scene.name && other.way.name == "bsp" && &other != &row)
      return paired(accuracies(row), accuracies(other));
  return std::nullopt;
}

void print_table(const StragglersBench& bench, const std::vector<Row>& rows) {
  const Table table({{"scene", -9, 7},
                     {"way", -10, 9},
                     {"optimizer, lr", -14, 13, 1},
                     {fmt::format("s to {:.0f} %", bench.training.target * 100), 16, 14},
                     {"speed", 7, 5, 2},
                     {"accuracy %", 14, 14, 1},
                     {"minus bsp's", 15, 15, 3},
                     {"MB sent", 9, 8, 4},
                     {"staleness", 10, 9, 5},
                     {"worst (steps)", 14, 13, 6}},
                    room_here());
  fmt::print("{}", table.head());
  for (const Row& row : rows) {
    const auto time = time_of(row);
    const Spread accuracy = over(row, [](const Figures& r) { return r.accuracy * 100; });
    const auto beside = beside_bsp(row, rows);
    const auto mean = [&](const std::function<double(const Figures&)>& figure, int digits) {
      return fmt::format("{:.{}f}", over(row, figure).mean, digits);
    };
    fmt::print(
        "{}",
        table.row(
            {row.scene.name, row.way.name, fmt::format("{} {:g}", row.optimizer, row.lr),
             time            ? fmt::format("{:.1f} +- {:.1f}", time->mean, time->deviation)
             : diverged(row) ? fmt::format("{} diverged", diverged(row))
                             : "not reached",
             fmt::format("{:.2f}", speed_of(bench, row).mean),
             fmt::format("{:.2f} +- {:.2f}", accuracy.mean, accuracy.deviation),
             beside ? fmt::format("{:+.2f} +- {:.2f}", beside->mean, beside->confidence()) : "",
             mean([](const Figures& r) { return r.bytes / 1e6; }, 0),
             mean([](const Figures& r) { return r.mean_staleness; }, 2),
             mean([](const Figures& r) { return r.worst_staleness; }, 2)}));
  }
  print_text(
      "accuracy: mean and deviation of one run; minus bsp's: points, paired by seed, and the "
      "95 % confidence interval");
}

void write_json(const StragglersBench& bench, const std::vector<Row>& rows) {
  auto list = json::array();
  for (const Row& row : rows) {
    const auto time = time_of(row);
    const auto beside = beside_bsp(row, rows);
    list.push_back(
        {{"scene", row.scene.name},
         {"way", row.way.name},
         {"optimizer", row.optimizer},
         {"lr", row.lr},
         {"tuned", bench.training.tunes},
         {"workers", bench.training.workers},
         {"seeds", row.results.size()},
         {"diverged", diverged(row)},
         {"target", bench.training.target},
         {"seconds_to_target", time ? json(time->mean) : json()},
         {"seconds_to_target_deviation", time ? json(time->deviation) : json()},
         {"share_of_summed_speed", speed_of(bench, row).mean},
         {"accuracy", over(row, [](const Figures& r) { return r.accuracy; }).mean},
         {"accuracy_deviation", over(row, [](const Figures& r) { return r.accuracy; }).deviation},
         {"accuracy_points_minus_bsp", beside ? json(beside->mean) : json()},
         {"accuracy_points_confidence_95", beside ? json(beside->confidence()) : json()},
         {"bytes_sent", over(row, [](const Figures& r) { return r.bytes; }).mean},
         {"mean_staleness_steps",
          over(row, [](const Figures& r) { return r.mean_staleness; }).mean},
         {"worst_staleness_steps",
          over(row, [](const Figures& r) { return r.worst_staleness; }).mean}});
  }
  write_atomically(bench.json, list.dump(2) + "\n");
}

}  // namespace

int run_stragglers_bench(StragglersBench bench) {
  const Training& training = bench.training;
  training.check();
  require(bench.seeds >= 1, "--seeds {}: one is the least", bench.seeds);
  if (bench.quick) {
    bench.seeds = 1;
    bench.training.tunes = false;
  }
  const std::vector<Way> ways = ways_of(bench);
  ProgramRunner runner;
  std::optional<VirtualHosts> hosts;
  const std::vector<Scene> scenes = set_up_scenes(bench, hosts);
  const std::vector<double> rates = rates_of(training, ways, runner);
  std::vector<Row> rows;
  for (const Scene& scene : scenes)
    for (std::size_t i = 0; i < ways.size(); ++i)
      rows.push_back({scene, ways[i], optimizer_of(training, ways[i]), rates[i], {}});
  print_text(fmt::format(
      "{} on {}, {} workers, global batch {}, {} steps, {} seeds. {} A sample takes {:g} ms by "
      "real "
      "sleeps in forward and backward, so that the cores of this machine are not the limit; tests "
      "do not count.",
      training.model, training.data, training.workers, training.batch, training.steps, bench.seeds,
      training.tunes ? "Each way has the learning rate that was best on samples set aside from "
                       "training, while all workers were equal."
                     : "Learning rates are not tuned.",
      training.sample_ms));
  // Ways by turns, so that a slow moment of the machine hits all.
  for (int seed = 1; seed <= bench.seeds; ++seed)
    for (Row& row : rows) {
      TrainingRun run{.name = fmt::format("{}-{}-{}", row.scene.name, row.way.name, seed),
                      .way = row.way,
                      .seed = seed,
                      .lr = row.lr,
                      .slowness = row.scene.slowness};
      if (row.scene.bits_per_second > 0) run.hosts = &*hosts;
      row.results.push_back(train(training, run, runner));
      fmt::print(stderr, "seed {}: {} {}: {:.1f} s, {:.2f} %\n", seed, row.scene.name, row.way.name,
                 row.results.back().seconds, row.results.back().accuracy * 100);
    }
  print_table(bench, rows);
  if (!bench.json.empty()) write_json(bench, rows);
  return 0;
}

}  // namespace asup::bench
