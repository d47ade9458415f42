// `asup bench stragglers`: trains the same job in several ways while workers are slow in several
// ways, and compares the time to an accuracy.
#pragma once

#include <string>
#include <vector>

#include "asup/bench/compare/training.h"

namespace asup::bench {

struct StragglersBench {
  std::vector<std::string> scenes;  // none: all that can be made here
  std::vector<std::string> ways;    // none: usual_for_stragglers()
  Training training{.tunes = true, .folder = "runs/stragglers"};
  int seeds = 3;
  std::string json;  // file for the rows; empty: none
  bool quick = false;
};

// Starts `asup train` for every run, and prints the table. The exit status.
int run_stragglers_bench(StragglersBench bench);

}  // namespace asup::bench
