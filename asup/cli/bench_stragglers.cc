#include "asup/cli/bench_stragglers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/cli/spread.h"

namespace asup::cli {
namespace {

using nlohmann::json;

constexpr int kTests = 8;  // of a run: each is a fence, at which all meet

struct Scene {
  std::string name;
  std::string handicap;  // ASUP_HANDICAP, but for the time of a sample (train/handicap.h)
  double summed_speed;   // of four workers, in those of one that is not slow, over the whole run
};

// The last worker is the slow one.
std::vector<Scene> scenes_of(int workers) {
  const int last = workers - 1;
  const double others = workers - 1;
  return {{"equal", "", others + 1},
          {"slow", fmt::format("slow={}:4", last), others + 0.25},
          // Stands still for 20 batches, once in 40: a third of the speed of the others.
          {"pauses", fmt::format("pause={}:40:20", last), others + 1 / 1.5},
          {"changes", fmt::format("slow={}:4:0.33:0.67", last), others + 0.66 + 0.34 / 4},
          // The same from outside, by SIGSTOP and SIGCONT.
          {"halted", fmt::format("halt={}:300:100:0.33:0.67", last), others + 0.66 + 0.34 / 4}};
}

struct Way {
  std::string name, flags;
};

std::vector<Way> all_ways() {
  return {{"allreduce", "--sync allreduce"},
          {"bsp", "--sync server --pace bsp"},
          {"ssp", "--sync server --pace ssp --staleness 4"},
          {"asp", "--sync server --pace asp"},
          {"asup", "--sync asup"},
          {"frozen", "--sync asup --freeze-pace"}};
}

template <typename Item>
std::vector<Item> chosen(const std::vector<Item>& all, const std::vector<std::string>& names,
                         const char* flag) {
  if (names.empty()) return all;
  std::vector<Item> some;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Item& item) { return item.name == name; });
    std::vector<std::string> known;
    for (const Item& item : all) known.push_back(item.name);
    require(found != all.end(), "{} {}: there is {}", flag, name, fmt::join(known, ", "));
    some.push_back(*found);
  }
  return some;
}

struct Result {
  std::optional<double> seconds_to_target;
  double seconds = 0;  // of training, tests left out
  double accuracy = 0;
  double samples = 0;
  double bytes = 0;
  double mean_staleness = 0, worst_staleness = 0;  // in steps
  bool diverged = false;  // a run without an end: stale gradients can do it
};

// What a run has left in its folder. Between two tests the accuracy is taken to grow evenly.
Result read_result(const std::string& folder, double target) {
  Result result;
  double testing = 0;
  std::ifstream metrics(folder + "/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const json row = json::parse(line);
    if (!row.contains("test_accuracy")) continue;
    const Result before = result;
    testing += row.at("eval_s").get<double>();
    result.seconds = row.at("seconds").get<double>() - testing;
    result.accuracy = row.at("test_accuracy");
    if (result.seconds_to_target || result.accuracy < target) continue;
    const double share = (target - before.accuracy) / (result.accuracy - before.accuracy);
    result.seconds_to_target = before.seconds + share * (result.seconds - before.seconds);
  }
  result.diverged = !std::filesystem::exists(folder + "/summary.json");
  if (result.diverged) return result;
  const json summary = json::parse(read_file(folder + "/summary.json"));
  result.samples = summary.value("samples", 0.0);
  result.bytes = summary.value("bytes_sent", 0.0);
  const json server = summary.value("server", json::object());
  result.mean_staleness = server.value("mean_staleness_steps", 0.0);
  result.worst_staleness = server.value("worst_staleness_steps", 0.0);
  return result;
}

Result train(const StragglersBench& bench, const std::string& program, const Scene& scene,
             const Way& way, int seed) {
  const std::string folder = fmt::format("{}/{}-{}-{}", bench.folder, scene.name, way.name, seed);
  std::filesystem::remove_all(folder);
  const int every = std::max(1, bench.steps / kTests);
  const std::string command = fmt::format(
      "ASUP_HANDICAP='sample_ms={} {}' '{}' train --model {} --data {} --workers {} --batch {} "
      "--steps {} --lr {} --schedule {} --momentum 0.9 --seed {} --threads 1 --eval-every {} --out "
      "'{}' {} > "
      "'{}.log' 2>&1",
      bench.sample_ms, scene.handicap, program, bench.model, bench.data, bench.workers, bench.batch,
      bench.steps, bench.lr, bench.schedule, seed, every, folder, way.flags, folder);
  std::filesystem::create_directories(bench.folder);
  const int status = std::system(command.c_str());
  const bool diverged =
      status != 0 && read_file(folder + ".log").find("has diverged") != std::string::npos;
  check(status == 0 || diverged, "a run failed; its last words are in {}.log. It was: {}", folder,
        command);
  return read_result(folder, bench.target);
}

struct Row {
  Scene scene;
  Way way;
  std::vector<Result> results;
};

std::optional<Spread> time_of(const Row& row) {
  std::vector<double> seconds;
  for (const Result& result : row.results) {
    if (!result.seconds_to_target) return std::nullopt;
    seconds.push_back(*result.seconds_to_target);
  }
  return spread_of(seconds);
}

Spread over(const Row& row, const std::function<double(const Result&)>& figure) {
  std::vector<double> values;
  for (const Result& result : row.results) values.push_back(figure(result));
  return spread_of(values);
}

// Samples a second, as a share of what all workers could do together if none ever waited.
Spread speed_of(const StragglersBench& bench, const Row& row) {
  const double possible = row.scene.summed_speed * 1000 / bench.sample_ms;
  return over(row, [&](const Result& result) {
    return result.diverged ? 0 : result.samples / result.seconds / possible;
  });
}

std::ptrdiff_t diverged(const Row& row) {
  return std::count_if(row.results.begin(), row.results.end(),
                       [](const Result& result) { return result.diverged; });
}

std::vector<double> accuracies(const Row& row) {
  std::vector<double> values;
  for (const Result& result : row.results) values.push_back(result.accuracy * 100);
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
  fmt::print("{:<9} {:<10} {:>16} {:>7} {:>14} {:>15} {:>9} {:>10} {:>14}\n", "scene", "way",
             fmt::format("s to {:.0f} %", bench.target * 100), "speed", "accuracy %", "minus bsp's",
             "MB sent", "staleness", "worst (steps)");
  for (const Row& row : rows) {
    const auto time = time_of(row);
    const Spread accuracy = over(row, [](const Result& r) { return r.accuracy * 100; });
    const auto beside = beside_bsp(row, rows);
    fmt::print("{:<9} {:<10} {:>16} {:>7.2f} {:>14} {:>15} {:>9.0f} {:>10.2f} {:>14.2f}\n",
               row.scene.name, row.way.name,
               time            ? fmt::format("{:.1f} +- {:.1f}", time->mean, time->deviation)
               : diverged(row) ? fmt::format("{} diverged", diverged(row))
                               : "not reached",
               speed_of(bench, row).mean,
               fmt::format("{:.2f} +- {:.2f}", accuracy.mean, accuracy.deviation),
               beside ? fmt::format("{:+.2f} +- {:.2f}", beside->mean, beside->confidence()) : "",
               over(row, [](const Result& r) { return r.bytes / 1e6; }).mean,
               over(row, [](const Result& r) { return r.mean_staleness; }).mean,
               over(row, [](const Result& r) { return r.worst_staleness; }).mean);
  }
  fmt::print(
      "accuracy: mean and deviation of one run; minus bsp's: points, paired by seed, and the "
      "95 % confidence interval\n");
}

void write_json(const StragglersBench& bench, const std::vector<Row>& rows) {
  auto list = json::array();
  for (const Row& row : rows) {
    const auto time = time_of(row);
    const auto beside = beside_bsp(row, rows);
    list.push_back(
        {{"scene", row.scene.name},
         {"way", row.way.name},
         {"workers", bench.workers},
         {"seeds", row.results.size()},
         {"diverged", diverged(row)},
         {"target", bench.target},
         {"seconds_to_target", time ? json(time->mean) : json()},
         {"seconds_to_target_deviation", time ? json(time->deviation) : json()},
         {"share_of_summed_speed", speed_of(bench, row).mean},
         {"accuracy", over(row, [](const Result& r) { return r.accuracy; }).mean},
         {"accuracy_deviation", over(row, [](const Result& r) { return r.accuracy; }).deviation},
         {"accuracy_points_minus_bsp", beside ? json(beside->mean) : json()},
         {"accuracy_points_confidence_95", beside ? json(beside->confidence()) : json()},
         {"bytes_sent", over(row, [](const Result& r) { return r.bytes; }).mean},
         {"mean_staleness_steps", over(row, [](const Result& r) { return r.mean_staleness; }).mean},
         {"worst_staleness_steps",
          over(row, [](const Result& r) { return r.worst_staleness; }).mean}});
  }
  write_atomically(bench.json, list.dump(2) + "\n");
}

}  // namespace

int run_stragglers_bench(StragglersBench bench) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  require(bench.workers >= 2 && bench.seeds >= 1 && bench.steps >= 1,
          "two workers, one seed and one step are the least");
  if (bench.quick) bench.seeds = 1;
  std::vector<Row> rows;
  for (const Scene& scene : chosen(scenes_of(bench.workers), bench.scenes, "--scenes"))
    for (const Way& way : chosen(all_ways(), bench.ways, "--ways"))
      rows.push_back({scene, way, {}});
  fmt::print(
      "{} on {}, {} workers, global batch {}, {} steps, {} seeds. A sample takes {:g} ms by a real "
      "sleep, so that the cores of this machine are not the limit; tests do not count.\n",
      bench.model, bench.data, bench.workers, bench.batch, bench.steps, bench.seeds,
      bench.sample_ms);
  // Ways by turns, so that a slow moment of the machine hits all.
  for (int seed = 1; seed <= bench.seeds; ++seed)
    for (Row& row : rows) {
      row.results.push_back(train(bench, program, row.scene, row.way, seed));
      fmt::print(stderr, "seed {}: {} {}: {:.1f} s, {:.2f} %\n", seed, row.scene.name, row.way.name,
                 row.results.back().seconds, row.results.back().accuracy * 100);
    }
  print_table(bench, rows);
  if (!bench.json.empty()) write_json(bench, rows);
  return 0;
}

}  // namespace asup::cli
