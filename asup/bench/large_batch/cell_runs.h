// Runs all that cells need, some runs at a time: those that tune a cell's learning rate, and then
// one for each seed. Used from the thread that made the runner.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "asup/bench/compare/program_runner.h"
#include "asup/bench/compare/tuned_rates.h"
#include "asup/bench/large_batch/cells.h"
#include "asup/bench/large_batch/rows.h"

namespace asup::bench {

class CellRuns {
 public:
  struct Options {
    int seeds = 3;
    int jobs = 1;       // runs at a time
    bool tunes = true;  // learning rates
  };
  // Takes from `rates` and `rows` what they know, and keeps there what is found.
  CellRuns(std::vector<Cell> cells, Options options, TunedRates& rates, BatchRowFile& rows);

  // Calls `done` for each row when it and all before it are complete, in the order of the cells.
  // Throws Interrupted, and Error where a run fails.
  void run(ProgramRunner& runner, const std::function<void(const BatchRow& row)>& done);

  // Rows that have runs, in the order of the cells.
  BatchTable table() const;

 private:
  // A cell, and how far it is.
  struct State {
    Cell cell;
    BatchRow row;
    std::vector<TriedRate> tried;
    std::optional<double> lr;  // as --lr, when it is known
  };
  struct Started {
    std::size_t cell;
    TrainingRun run;
    bool tunes;
  };

  void find_rate(State& state);
  bool is_complete(const State& state) const;
  std::vector<Started> wanted(std::size_t cell) const;
  std::optional<Started> next() const;
  void take(const Started& started, int status);

  const Options options_;
  TunedRates& rates_;
  BatchRowFile& rows_;
  std::vector<State> states_;
  std::size_t told_ = 0;  // rows that `done` has been called for
  std::map<pid_t, Started> running_;
};

}  // namespace asup::bench
