// The timelines of a job's processes in one, by one clock. Used from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "asup/report/timeline/part.h"

namespace asup::report {

class JobTimeline {
 public:
  // Events of a process that are kept at most, the newest.
  static constexpr std::size_t kMostOfProcess = 200'000;
  // And of all processes of a job of so many.
  static std::size_t share_of_process(int processes);

  explicit JobTimeline(std::size_t most_of_process = kMostOfProcess)
      : most_of_process_(most_of_process) {}
  JobTimeline(const JobTimeline&) = delete;
  JobTimeline& operator=(const JobTimeline&) = delete;

  // What a process has packed since the last time. Throws BadInput.
  void add(std::string_view packed);

  bool empty() const { return processes_.empty(); }
  // In their order, each with all of its parts together; times are by the process's own clock.
  std::vector<const TimelinePart*> processes() const;
  // The same by the clock of whoever collects, each track's events by their beginning and enclosing
  // ones first, without tracks that have none.
  std::vector<TimelinePart> on_one_clock() const;

 private:
  const std::size_t most_of_process_;
  TimelineNames names_;
  std::vector<TimelinePart> processes_;
};

}  // namespace asup::report
