// `asup bench embedding`: times steps of an embedding table that servers of this host keep, beside
// torch's sparse embedding in one process and copying the same rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asup::bench {

struct EmbeddingBench {
  int workers = 1;
  int servers = 1;
  std::int64_t rows = 1'000'000;
  std::int64_t width = 32;
  std::vector<std::int64_t> batches{};  // ids of a step of a worker
  std::string optimizer = "adagrad";
  std::string link = "shm";
  std::string pace = "bsp";
  std::string json;  // file for the rows; empty: none
  bool quick = false;
};

// Throws BadInput for choices that cannot be.
void check(const EmbeddingBench& bench);

// Starts the members, or, started as one of them, takes part; prints the table. The exit status.
int run_embedding_bench(const EmbeddingBench& bench, const std::vector<std::string>& command);

}  // namespace asup::bench
