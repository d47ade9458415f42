// How fast a job is that loses a worker and gets another every so many seconds, beside one that is
// left alone, by turns. Used from the thread of the runner.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "asup/bench/faults/watch.h"
#include "asup/bench/table.h"

namespace asup::bench {

struct FaultRate {
  FaultyWay way;
  double undisturbed = 0, disturbed = 0;  // steps a second
  int kills = 0, joins = 0;
  std::string trouble{};  // a job hung, failed, or a newcomer did not get in

  double share() const { return undisturbed > 0 ? disturbed / undisturbed : 0; }
};

// `seconds` of the disturbed job, and about half as many of the other one. `job.steps` is ours.
FaultRate measure_fault_rate(FaultyJob job, double every, double seconds, ProgramRunner& runner);

Table fault_rate_table();
std::string line_of(const FaultRate& rate);
nlohmann::ordered_json json_of(const FaultRate& rate);

}  // namespace asup::bench
