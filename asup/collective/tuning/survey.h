// Every algorithm of a collective at several sizes: what it was priced at, and what it took.
#pragma once

#include <functional>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/collective/cost/rates.h"
#include "asup/collective/tuning/surroundings.h"

namespace asup::collective::tuning {

struct SurveyOptions {
  Collective collective = Collective::all_reduce;
  std::vector<std::size_t> sizes;  // bytes
  bool shared = true;              // buffers in memory that all ranks reach
  bool stage = true;               // they have memory that all reach beside them
  double seconds = 0.1;            // for each size and algorithm
};

struct SurveyCell {
  const Algorithm* algorithm;
  double predicted, measured;  // seconds
};

struct SurveyRow {
  std::size_t bytes;
  std::vector<SurveyCell> cells;  // in the order of the table of algorithms
  std::size_t picked = 0;         // by the prices
  std::size_t best = 0;           // by the clock

  // The pick takes so much longer than the best that it is no matter of luck.
  bool is_wrong() const { return lost() > 0.1; }
  double lost() const { return cells[picked].measured / cells[best].measured - 1; }
};

// Collective: the rates, and so the prices and picks, are those that all ranks agreed on; the times
// are each rank's own. `on_row` is told of each row as it is done.
std::vector<SurveyRow> survey(Communicator& communicator, const Surroundings& surroundings,
                              const Rates& rates, const SurveyOptions& options,
                              const std::function<void(const SurveyRow&)>& on_row = {});

}  // namespace asup::collective::tuning
