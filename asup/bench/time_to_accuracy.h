// `asup bench time-to-accuracy`: trains the same job by every way of staying in step, between hosts
// whose links are slow, and compares the time to an accuracy and the bytes sent.
#pragma once

#include <string>
#include <vector>

#include "asup/bench/compare/training.h"

namespace asup::bench {

struct TimeToAccuracyBench {
  Training training{.tests = 10, .lr = 0.02, .sample_ms = 2, .folder = "runs/time-to-accuracy"};
  std::string rate = "100mbit";        // of each host's link, both ways
  std::vector<std::string> ways;       // by name; none: the usual ones
  std::vector<std::string> more_ways;  // "NAME=FLAGS"
  double slow = 1;                     // the last worker takes so many times as long
  int seeds = 3;
  int allreduce_steps = 0;  // above 0: all-reduce is timed over so many, and the rest is computed
  std::string html, json;   // files; empty: none
  bool quick = false;
};

// Makes the hosts, starts `asup train` for every run, and prints the table. The exit status.
int run_time_to_accuracy_bench(TimeToAccuracyBench bench);

}  // namespace asup::bench
