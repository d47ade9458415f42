// `asup bench large-batch`: trains the same job for the same number of epochs with batches of
// several sizes, in several ways, and compares the accuracy in the end.
#pragma once

#include <string>

#include "asup/bench/large_batch/cells.h"

namespace asup::bench {

struct LargeBatchBench {
  LargeBatchJob job;
  int seeds = 3;
  int jobs = 1;            // runs at a time
  std::string html, json;  // files; empty: none
  bool quick = false;

  // Looks at no file. Throws BadInput.
  void check() const;
};

// Starts `asup train` for every run, and prints the table. The exit status.
int run_large_batch_bench(LargeBatchBench bench);

}  // namespace asup::bench
