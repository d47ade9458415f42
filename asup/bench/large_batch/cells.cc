#include "asup/bench/large_batch/cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "asup/base/error.h"
#include "asup/bench/compare/tuned_rates.h"
#include "asup/report/format.h"

namespace asup::bench {
namespace {

enum class Rate { own, scaled };

struct BatchWay {
  std::string name, flags;
  double lr;  // a fair one for a batch of kUsualBatch
  Rate rate = Rate::own;
  bool grows = false;
};

constexpr double kUsualBatch = 128;
constexpr double kWarmup = 0.1;      // of the run
constexpr double kGrowsFrom = 0.25;  // of the run: a third of the updates are left

std::vector<BatchWay> all_ways() {
  return {{"sgd", "--optimizer sgd", 0.05, Rate::scaled},
          {"nesterov", "--optimizer sgd --nesterov", 0.05},
          {"lars", "--optimizer lars", 1},
          {"lamb", "--optimizer lamb", 0.01},
          {"growing", "--optimizer sgd --nesterov --schedule constant", 0.05, Rate::own, true}};
}

std::vector<BatchWay> ways_of(const LargeBatchJob& job) {
  std::set<std::string> names;
  for (const std::string& name : job.ways)
    require(names.insert(name).second, "--ways: {} is named twice", name);
  return job.ways.empty() ? all_ways() : chosen(all_ways(), job.ways, "--ways");
}

// What the benchmark sets itself, and would be the same for all cells.
constexpr std::array kOwnFlags{"batch",    "epochs",     "steps",   "optimizer",      "lr",
                               "lr-scale", "base-batch", "seed",    "batch-schedule", "validation",
                               "schedule", "eval-every", "patience"};

std::int64_t steps_of(std::int64_t samples, int batch) { return (samples + batch - 1) / batch; }

// Of a worker's part of a batch.
int portions(const LargeBatchJob& job, int batch) {
  const int part = (batch + job.training.workers - 1) / job.training.workers;
  return (part + job.portion - 1) / job.portion;
}

// What users say with --train goes over it.
Training training_of(const LargeBatchJob& job, int batch, std::int64_t samples) {
  Training training = job.training;
  training.batch = batch;
  const double steps = static_cast<double>(steps_of(samples, batch) * training.epochs);
  std::string flags = fmt::format("--warmup {:.0f}", std::ceil(kWarmup * steps));
  if (portions(job, batch) > 1) flags += fmt::format(" --accumulate {}", portions(job, batch));
  training.flags = training.flags.empty() ? flags : flags + " " + training.flags;
  return training;
}

// The root of the batch is between what small and what large batches want.
double first_rate(const BatchWay& way, int batch) {
  const double rate = way.lr * std::sqrt(batch / kUsualBatch);
  return std::round(rate * 1e4) / 1e4;
}

Cell cell_of(const LargeBatchJob& job, const BatchWay& way, int batch, std::int64_t samples) {
  const int smallest = job.smallest();
  Cell cell{.way = way.name,
            .batch = batch,
            .training = training_of(job, way.grows ? smallest : batch, samples),
            .run = {fmt::format("{}-{}", way.name, batch), way.flags}};
  cell.lr = first_rate(way, cell.training.batch);
  if (way.grows) cell.run.flags += fmt::format(" --batch-schedule {}", growth(batch / smallest));
  if (way.rate == Rate::scaled && batch > smallest) {
    cell.lr = first_rate(way, smallest);
    cell.scales = static_cast<double>(batch) / smallest;
    cell.run.flags += fmt::format(" --lr-scale linear --base-batch {}", smallest);
  }
  return cell;
}

void check_batches(const LargeBatchJob& job) {
  const int workers = job.training.workers;
  require(!job.batches.empty(), "--batches: name one, as in --batches 128,512,2048");
  std::set<int> seen;
  for (const int batch : job.batches) {
    require(batch >= workers, "--batches {}: a batch has a sample for each of the {}", batch,
            report::counted(workers, "worker"));
    require(seen.insert(batch).second, "--batches: {} is named twice", batch);
  }
  for (const BatchWay& way : ways_of(job)) {
    if (!way.grows) continue;
    require(job.batches.size() > 1 || job.ways.empty(),
            "--ways {}: needs a batch to grow to; name two or more with --batches", way.name);
    for (const int batch : job.batches)
      require(batch % job.smallest() == 0,
              "--batches {}: a batch that grows becomes a whole multiple of the smallest, {}; name "
              "one, or leave {} out of --ways",
              batch, job.smallest(), way.name);
  }
}

}  // namespace

void LargeBatchJob::check() const {
  require(training.workers >= 1 && training.workers <= 64, "--workers {}: between 1 and 64",
          training.workers);
  require(training.epochs >= 1, "--epochs {}: one is the least", training.epochs);
  require(portion >= 1, "--portion {}: one sample is the least", portion);
  check_batches(*this);
  const std::vector<std::string> said = words_of(training.flags);
  for (const char* name : kOwnFlags)
    for (const std::string& word : said)
      require(word != fmt::format("--{}", name) && !word.starts_with(fmt::format("--{}=", name)),
              "--train '{}': --{} is for the benchmark to say; leave it out", training.flags, name);
}

int LargeBatchJob::smallest() const { return *std::min_element(batches.begin(), batches.end()); }

bool LargeBatchJob::has(const std::string& way) const {
  return ways.empty() || std::find(ways.begin(), ways.end(), way) != ways.end();
}

std::vector<std::string> names_of_batch_ways() {
  std::vector<std::string> names;
  for (const BatchWay& way : all_ways()) names.push_back(way.name);
  return names;
}

std::string Cell::job(bool tunes) const {
  const std::string flags = job_of(training, run);
  return tunes ? flags : fmt::format("{} --lr {:g}", flags, lr);
}

std::vector<Cell> cells_of(const LargeBatchJob& job, std::int64_t samples) {
  std::vector<int> batches = job.batches;
  std::sort(batches.begin(), batches.end());
  require(batches.back() <= samples,
          "--batches {}: {} has {} training samples, so that no batch is as large; leave it out",
          batches.back(), job.training.data, samples);
  std::vector<Cell> cells;
  for (const BatchWay& way : ways_of(job))
    for (const int batch : batches)
      if (!way.grows || batch > batches.front()) cells.push_back(cell_of(job, way, batch, samples));
  return cells;
}

std::string growth(int factor) {
  std::vector<int> factors;
  for (int prime = 2; factor > 1;) {
    if (factor % 4 == 0) {
      factors.push_back(4);
      factor /= 4;
    } else if (factor % prime == 0) {
      factors.push_back(prime);
      factor /= prime;
    } else {
      ++prime;
    }
  }
  std::vector<std::string> steps;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(factors.size());
    steps.push_back(
        fmt::format("{}@{:.0f}%", factors[i], 100 * (kGrowsFrom + (1 - kGrowsFrom) * share)));
  }
  return fmt::format("{}", fmt::join(steps, ","));
}

}  // namespace asup::bench
