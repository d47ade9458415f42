// `asup bench collective`: times collectives between processes of this host, results checked first.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace asup::cli {

struct CollectiveBench {
  std::string op = "allreduce";
  int ranks = 2;
  std::vector<std::size_t> sizes;           // bytes
  std::vector<std::string> algorithms{""};  // "": chosen; "all": every one that can
  std::string buffers = "shared";
  std::string link = "shm";
  int together = 0;  // tensors of a gradient that is timed too; 0: none
  std::string json;  // file for the rows; empty: none
  bool quick = false;
};

// "1K,4M,100M": bytes, with K, M and G for powers of 1024. Throws BadInput.
std::vector<std::size_t> parse_sizes(const std::string& text);

// Starts the ranks, or, started as one of them, takes part; prints the table. The exit status.
int run_collective_bench(const CollectiveBench& bench, const std::vector<std::string>& command);

}  // namespace asup::cli
