// The figures of `asup bench time-to-accuracy`: for each way of staying in step one row, over all
// seeds. Values only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "asup/bench/compare/figures.h"
#include "asup/bench/compare/strategies.h"
#include "asup/bench/spread.h"

namespace asup::bench {

struct WayRuns {
  Way way;
  std::vector<Figures> runs{};  // by seed
  bool computed = false;  // times are a step's, measured, by the steps of a run without limits
  std::string optimizer{};
  double lr = 0;
};

// Where the runs took place, as far as figures need it.
struct AccuracyScene {
  int workers = 4;
  double slow = 1;       // the last worker takes so many times as long
  double sample_ms = 2;  // of the others
  double target = 0.8;

  // Samples a second of all workers together if none ever waited.
  double summed_speed() const { return (workers - 1 + 1 / slow) * 1000 / sample_ms; }
};

struct AccuracyRow {
  Way way;
  std::string optimizer;
  double lr = 0;
  bool computed = false;
  std::size_t seeds = 0;
  std::size_t diverged = 0;                 // so many of them
  std::optional<Spread> seconds_to_target;  // where all seeds reached it and came to an end
  std::optional<double> times_sooner;       // than all-reduce
  Spread accuracy;                          // in percent
  std::optional<Spread> points;             // of accuracy beside all-reduce's, paired by seed
  double mb_sent = 0;                       // by a worker
  std::optional<double> times_fewer_bytes;  // than all-reduce
  double idle = 0;
  double speed = 0;  // samples a second, as a share of the summed speed
};

// Beside all-reduce where that is one of the ways.
std::vector<AccuracyRow> accuracy_rows(const AccuracyScene& scene,
                                       const std::vector<WayRuns>& ways);

// Cells in words, for people: the same in the terminal and on the page.
std::vector<std::string> accuracy_heads(const AccuracyScene& scene);
std::vector<std::string> accuracy_cells(const AccuracyRow& row);

// The table, with a line for the columns and one on rows that were computed.
// Where they need more columns of text than `room`, the last ones of the table are left out.
std::string accuracy_table(const AccuracyScene& scene, const std::vector<AccuracyRow>& rows,
                           int room);

// One flat object.
nlohmann::ordered_json accuracy_json(const AccuracyScene& scene, const AccuracyRow& row);

}  // namespace asup::bench
