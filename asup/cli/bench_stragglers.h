// `asup bench stragglers`: trains the same job in several ways while workers are slow in several
// ways, and compares the time to an accuracy.
#pragma once

#include <string>
#include <vector>

namespace asup::cli {

struct StragglersBench {
  std::vector<std::string> scenes;  // none: all
  std::vector<std::string> ways;    // none: all
  int workers = 4;
  int seeds = 3;
  int steps = 400;
  int batch = 128;
  double sample_ms = 1.5;  // what a sample takes on a worker that is not slow
  double target = 0.8;     // test accuracy
  std::string model = "cnn";
  std::string data = "fashion-mnist";
  double lr = 0.05;
  std::string schedule = "constant";  // of the learning rate
  std::string folder = "runs/stragglers";
  std::string json;  // file for the rows; empty: none
  bool quick = false;
};

// Starts `asup train` for every run, and prints the table. The exit status.
int run_stragglers_bench(StragglersBench bench);

}  // namespace asup::cli
