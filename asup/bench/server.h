// `asup bench server`: times push-pulls between workers and parameter servers of this host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace asup::bench {

struct ServerBench {
  int workers = 2;
  int servers = 1;
  std::vector<std::size_t> sizes;  // bytes of the model
  std::string link = "shm";
  std::string pace = "asp";
  std::string json;  // file for the rows; empty: none
  bool quick = false;
};

// Starts the members, or, started as one of them, takes part; prints the table. The exit status.
int run_server_bench(const ServerBench& bench, const std::vector<std::string>& command);

}  // namespace asup::bench
