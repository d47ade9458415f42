// Brings the timelines of a communicator's ranks to its rank 0. Collective; throws JobFailed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/base/timeline.h"
#include "asup/collective/communicator.h"
#include "asup/report/timeline/job_timeline.h"

namespace asup::report {

// How far rank 0's clock is from this one's, found by dozens of messages to it and back. On rank 0
// zero.
ClockOffset measure_clock(Communicator& communicator);

class TimelineCollector {
 public:
  // `name`: of this process, "rank 1"; `order`: its place among the job's.
  TimelineCollector(const Timeline& timeline, std::string name, int order);

  // After a new generation of the job.
  void rename(std::string name, int order);

  // All ranks together: measures clocks, and brings what was recorded since the last time. `to`:
  // where it goes on rank 0.
  void collect(Communicator& communicator, JobTimeline& to);
  // Measures clocks alone: at the beginning.
  void measure(Communicator& communicator);
  // Only what this process has recorded: where the others cannot be reached.
  void collect_own(JobTimeline& to);

 private:
  TimelinePart take(std::size_t most);

  Timeline timeline_;
  const std::uint64_t process_;
  std::string name_;
  int order_;
  std::vector<ClockOffset> clock_;  // measured since the last time
};

}  // namespace asup::report
