// What came of all jobs by one way: a line of the table, and a row of the file. Values; safe from
// any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "asup/bench/faults/faulty_run.h"
#include "asup/bench/table.h"

namespace asup::bench {

struct FaultTally {
  FaultyWay way;
  int jobs = 0, hung = 0, failed = 0, wrong = 0;
  FaultCounts counts{};
  std::int64_t lost_steps = 0, again = 0;
  std::vector<double> recovery_seconds{};
  std::vector<std::string> troubles{};  // of each job that was not well, and where it is

  void add(const FaultyJob& job, const FaultyJobEnd& end);
  bool is_well() const { return troubles.empty(); }
};

Table fault_table();
std::string line_of(const FaultTally& tally);
nlohmann::ordered_json json_of(const FaultTally& tally);
// What a job that is not well has come to.
std::string trouble_of(const FaultyJobEnd& end);

}  // namespace asup::bench
