#include "asup/bench/large_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/compare/can_write.h"
#include "asup/bench/compare/tuned_rates.h"
#include "asup/bench/large_batch/cell_runs.h"
#include "asup/bench/large_batch/page.h"
#include "asup/bench/table.h"
#include "asup/report/format.h"

namespace asup::bench {
namespace {

constexpr int kQuickEpochs = 2;

std::string rates_in_words(const LargeBatchJob& job) {
  std::string text =
      fmt::format("Learning rates rise in the first tenth of a run and then fall ({}{})",
                  job.training.schedule, job.has("growing") ? "; growing: they stay" : "");
  if (!job.training.tunes) return text + "; they are not tuned.";
  text += "; each is the best on samples set aside from training";
  if (job.has("sgd"))
    text += ", but sgd's, which is that of the smallest batch and grows with the batch";
  return text + ".";
}

std::string title_of(const LargeBatchBench& bench) {
  const Training& training = bench.job.training;
  return fmt::format("{} on {}, {}, {} with batches of every size, {}. {}{}", training.model,
                     training.data, report::counted(training.workers, "worker"),
                     report::counted(training.epochs, "epoch"),
                     report::counted(bench.seeds, "seed"), rates_in_words(bench.job),
                     training.flags.empty() ? "" : fmt::format(" With {}.", training.flags));
}

// What `asup train` would refuse is refused before hours of runs.
void check_cells(const LargeBatchBench& bench, const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    const TrainingRun run{.name = cell.run.name, .way = cell.run, .lr = cell.lr};
    check_run(cell.training, bench.job.training.tunes ? tuning_run(run, cell.lr) : run);
  }
}

std::vector<Cell> cells_of(const LargeBatchBench& bench) {
  const LargeBatchJob& job = bench.job;
  const std::string way = job.ways.empty() ? names_of_batch_ways().front() : job.ways.front();
  const std::int64_t samples = training_samples(job.training, {.name = way, .way = {way, ""}});
  std::vector<Cell> cells = bench::cells_of(job, samples);
  check_cells(bench, cells);
  return cells;
}

}  // namespace

void LargeBatchBench::check() const {
  job.check();
  require(seeds >= 1 && seeds <= 1000, "--seeds {}: between 1 and 1000", seeds);
  require(job.training.rates.empty() || (job.training.tunes && !quick),
          "--rates {}: learning rates are tuned with --lr auto alone, and not by --quick",
          job.training.rates);
  require(jobs >= 1 && jobs <= 256, "--jobs {}: between 1 and 256", jobs);
}

int run_large_batch_bench(LargeBatchBench bench) {
  Training& training = bench.job.training;
  if (bench.quick) {
    bench.seeds = 1;
    training.epochs = std::min(training.epochs, kQuickEpochs);
    training.tunes = false;
  }
  bench.check();
  check_can_write("--html", bench.html);
  check_can_write("--json", bench.json);
  check_can_write("--rates", training.rates);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  training.threads = std::max(1, cores / (bench.jobs * training.workers));
  TunedRates rates(training.rates);
  BatchRowFile rows(bench.json);
  CellRuns runs(cells_of(bench), {bench.seeds, bench.jobs, training.tunes}, rates, rows);
  ProgramRunner runner;
  print_text(title_of(bench));
  fmt::print("{}", runs.table().head(room_here()));
  std::fflush(stdout);
  runs.run(runner, [&](const BatchRow& row) {
    const BatchTable table = runs.table();
    fmt::print("{}", table.line(row, room_here()));
    std::fflush(stdout);
    if (!bench.html.empty()) write_atomically(bench.html, large_batch_page(title_of(bench), table));
  });
  print_text(runs.table().notes());
  return 0;
}

}  // namespace asup::bench
