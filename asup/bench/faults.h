// `asup bench faults`: kills and halts workers of jobs that train, again and again, in every way of
// training, lets others join, and counts what came of it. Servers are left alone: a lost one ends
// the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asup::bench {

struct FaultsBench {
  std::vector<std::string> ways;  // names_of_faulty_ways(); empty: all of them
  double seconds = 60;            // no job is begun after that
  int workers = 4;
  int steps = 300;         // of a job
  std::uint64_t seed = 1;  // of moments and victims
  std::string folder = "runs/bench-faults";
  std::string json;  // file; empty: none

  // Throws BadInput.
  void check() const;
};

std::vector<std::string> names_of_faulty_ways();

// Starts `asup train` for every job, and prints the table. The exit status: 1 where a job hung,
// failed, or came to something else than one without faults.
int run_faults_bench(const FaultsBench& bench);

}  // namespace asup::bench
