#include "asup/bench/large_batch/cell_runs.h"

#include <fmt/format.h>

#include <algorithm>

namespace asup::bench {
namespace {

// Without sleeps: it is accuracies that are compared, not times.
TrainingRun run_of(const Cell& cell) {
  return {.name = cell.run.name, .way = cell.run, .takes_its_time = false};
}

}  // namespace

CellRuns::CellRuns(std::vector<Cell> cells, Options options, TunedRates& rates, BatchRowFile& rows)
    : options_(options), rates_(rates), rows_(rows) {
  for (Cell& cell : cells) {
    BatchRow row{.job = cell.job(options.tunes), .way = cell.way, .batch = cell.batch};
    row.tuned = options.tunes && cell.scales == 0;
    std::optional<double> lr;
    if (const BatchRow* known = rows.find(row.job)) {
      row = *known;
      lr = row.lr / std::max(cell.scales, 1.0);
    }
    states_.push_back({std::move(cell), std::move(row), {}, lr});
  }
}

// Where it is not known yet, and now can be.
void CellRuns::find_rate(State& state) {
  if (state.lr) return;
  const Cell& cell = state.cell;
  if (!options_.tunes) {
    state.lr = cell.lr;
  } else if (cell.scales > 0) {
    const auto smallest = std::find_if(states_.begin(), states_.end(), [&](const State& other) {
      return other.cell.way == cell.way;
    });
    state.lr = smallest->lr;
  } else if (const auto known = rates_.find(state.row.job)) {
    state.lr = known->lr;
  } else if (next_rates(cell.lr, state.tried).empty()) {
    const TunedRate best = best_of(state.tried);
    if (best.lr == best.tried.front().lr || best.lr == best.tried.back().lr)
      fmt::print(stderr,
                 "{}: the best learning rate, {:g}, is at an end of those that were tried\n",
                 cell.run.name, best.lr);
    rates_.keep(state.row.job, cell.run, best);
    state.lr = best.lr;
  }
  if (state.lr) state.row.lr = *state.lr * std::max(cell.scales, 1.0);
}

bool CellRuns::is_complete(const State& state) const {
  for (int seed = 1; seed <= options_.seeds; ++seed)
    if (!state.row.by_seed.contains(seed)) return false;
  return true;
}

// Runs that it can begin with, those that have begun among them.
std::vector<CellRuns::Started> CellRuns::wanted(std::size_t number) const {
  const State& state = states_[number];
  const TrainingRun run = run_of(state.cell);
  std::vector<Started> runs;
  if (!state.lr) {
    if (state.cell.scales > 0) return runs;  // it waits for another cell's rate
    for (const double lr : next_rates(state.cell.lr, state.tried))
      runs.push_back({number, tuning_run(run, lr), true});
    return runs;
  }
  for (int seed = 1; seed <= options_.seeds; ++seed) {
    if (state.row.by_seed.contains(seed)) continue;
    Started started{number, run, false};
    started.run.name += fmt::format("-{}", seed);
    started.run.seed = seed;
    started.run.lr = state.lr;
    started.run.flags = {"--eval-every", "never"};  // the end alone counts
    runs.push_back(std::move(started));
  }
  return runs;
}

std::optional<CellRuns::Started> CellRuns::next() const {
  for (std::size_t number = 0; number < states_.size(); ++number)
    for (const Started& run : wanted(number)) {
      const bool runs = std::any_of(running_.begin(), running_.end(), [&](const auto& each) {
        return each.second.run.name == run.run.name;
      });
      if (!runs) return run;
    }
  return std::nullopt;
}

void CellRuns::take(const Started& started, int status) {
  State& state = states_[started.cell];
  const Training& training = state.cell.training;
  if (started.tunes) {
    state.tried.push_back(tried_by(training, started.run, status));
    return;
  }
  const Figures figures = ended(training, started.run, status);
  state.row.by_seed[started.run.seed] =
      figures.diverged ? std::nullopt : std::optional(figures.accuracy);
  if (!figures.diverged) state.row.updates = figures.updates;
  rows_.keep(state.row);
  fmt::print(stderr, "{}, seed {}: {}\n", started.run.way.name, started.run.seed,
             figures.diverged ? "diverged"
                              : fmt::format("{:.2f} % after {} updates", figures.accuracy * 100,
                                            figures.updates));
}

void CellRuns::run(ProgramRunner& runner, const std::function<void(const BatchRow& row)>& done) {
  for (;;) {
    for (State& state : states_) find_rate(state);
    for (; told_ < states_.size() && is_complete(states_[told_]); ++told_) done(states_[told_].row);
    while (static_cast<int>(running_.size()) < options_.jobs) {
      const auto one = next();
      if (!one) break;
      running_.emplace(start(states_[one->cell].cell.training, one->run, runner), *one);
    }
    if (running_.empty()) return;
    const ProgramRunner::Ended ended = runner.wait();
    const auto found = running_.find(ended.pid);
    const Started started = found->second;
    running_.erase(found);
    take(started, ended.status);
  }
}

BatchTable CellRuns::table() const {
  BatchTable table;
  table.smallest =
      std::min_element(states_.begin(), states_.end(), [](const auto& a, const auto& b) {
        return a.cell.batch < b.cell.batch;
      })->cell.batch;
  for (const State& state : states_)
    if (!state.row.by_seed.empty()) table.rows.push_back(state.row);
  return table;
}

}  // namespace asup::bench
