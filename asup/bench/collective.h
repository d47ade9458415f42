// `asup bench collective`: times collectives between processes of this host, results checked first.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "asup/collective/plan/plan.h"

namespace asup::bench {

struct CollectiveBench {
  collective::Collective collective = collective::Collective::all_reduce;
  int ranks = 2;
  std::vector<std::size_t> sizes;           // bytes
  std::vector<std::string> algorithms{""};  // "": chosen; "all": every one that can
  std::string buffers = "shared";
  std::string link = "shm";
  int together = 0;  // tensors of a gradient that is timed too; 0: none
  std::string json;  // file for the rows; empty: none
  bool quick = false;
};

// Starts the ranks, or, started as one of them, takes part; prints the table. The exit status.
int run_collective_bench(const CollectiveBench& bench, const std::vector<std::string>& command);

}  // namespace asup::bench
