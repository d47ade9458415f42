// `asup bench memory`: what a worker and a server need to train a model, measured, beside what they
// should; and a worker by all-reduce, of which each may keep a part only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace asup::bench {

struct MemoryBench {
  int workers = 2;
  std::size_t bytes = std::size_t{32} << 20;  // of the model
  bool only_shards = false;                   // of cases: those by all-reduce
  std::string json;                           // file for the rows; empty: none
};

// Starts a job for each case, or, started as a member of one, takes part; prints the table. The
// exit status.
int run_memory_bench(const MemoryBench& bench, const std::vector<std::string>& command);

}  // namespace asup::bench
