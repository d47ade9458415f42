// `asup bench faults`: kills, halts and cuts off workers of jobs that train, again and again, in
// every way of training, lets others join, and counts what came of it. With `every`, it measures
// what a loss and a newcomer every so many seconds cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace asup::bench {

struct FaultsBench {
  std::vector<std::string> ways;    // names_of_faulty_ways(); empty: all of them
  std::optional<double> seconds{};  // no job is begun after that; none: 60, or as `faults` says
  std::int64_t faults = 0;          // until there were so many; 0: as `seconds` says
  double every = 0;                 // seconds; above 0: measures the cost of a loss so often
  int workers = 4;
  int hosts = 0;           // above 0: a worker on each, and links between them are cut
  std::int64_t steps = 0;  // of a job; 0: 300, and 2000 between hosts
  std::string model = "mlp";
  std::uint64_t seed = 1;  // of moments and victims
  std::string folder = "runs/bench-faults";
  std::string json;  // file; empty: none

  // Throws BadInput.
  void check() const;
};

// Starts `asup train` for every job, and prints the table. The exit status: 1 where a job hung,
// failed, or came to something else than one without faults.
int run_faults_bench(FaultsBench bench);

}  // namespace asup::bench
