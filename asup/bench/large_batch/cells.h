// What `asup bench large-batch` trains: a cell for each way and each size of a batch, all for the
// same number of epochs. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/bench/compare/training.h"

namespace asup::bench {

struct LargeBatchJob {
  Training training{.workers = 2,
                    .tests = 1,
                    .epochs = 10,
                    .tunes = true,
                    .schedule = "cosine",
                    .target = kNoTarget,
                    .folder = "runs/large-batch"};
  std::vector<int> batches{128, 512, 2048, 8192, 32768};
  std::vector<std::string> ways{};  // by name; none: all
  int portion = 1024;               // samples that a worker computes at once, at most

  // Looks at no file. Throws BadInput.
  void check() const;
  int smallest() const;  // of the batches
  bool has(const std::string& way) const;
};

std::vector<std::string> names_of_batch_ways();

struct Cell {
  std::string way;    // "lars"
  int batch = 0;      // of a batch that grows: the largest
  Training training;  // with what depends on the batch: warm-up, portions
  Way run;            // "lars-512", with its flags
  double lr = 0;      // where tuning begins; without tuning, what it trains with
  // Has the rate of the same way's smallest batch, which `--lr-scale linear` makes larger by this
  // factor; 0: a rate of its own.
  double scales = 0;

  std::string job(bool tunes) const;  // tells cells apart, of all jobs
};

// In the order of ways, batches ascending. `samples`: to train on. Throws BadInput.
std::vector<Cell> cells_of(const LargeBatchJob& job, std::int64_t samples);

// How a batch becomes `factor` times as large, for `--batch-schedule`: by factors of 4 and what is
// left of it, evenly from a quarter of the run on: "4@25%,4@62%" for 16. needs: factor > 1
std::string growth(int factor);

}  // namespace asup::bench
