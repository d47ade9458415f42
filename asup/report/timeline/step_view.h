// A step of a timeline to look at, and where time goes in all of them. Functions only; safe from
// any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "asup/report/timeline/part.h"

namespace asup::report {

// All here are on one clock (JobTimeline::on_one_clock()).

// The track of the thread that trains, which is the one with steps; null where there is none.
const TimelinePart::Track* training_track(const TimelinePart& process);

struct StepWindow {
  std::int64_t step = 0;  // counted from 1
  std::int64_t begin = 0, end = 0;
};
// The step that took the first process the median time; from where the first process begins it to
// where the last one ends it. Nothing where no step was recorded.
std::optional<StepWindow> typical_step(const std::vector<TimelinePart>& processes);

// Where the time of a process's steps goes: each moment counts for the innermost span.
struct TimeShares {
  std::string name;  // of the process
  std::size_t steps = 0;
  double step_seconds = 0;                    // of all of them
  std::array<double, kActivities> seconds{};  // of the thread that trains; Activity::step: the rest
  double exchange_seconds = 0;                // collectives were under way, beside it or not
};
std::vector<TimeShares> time_shares(const std::vector<TimelinePart>& processes);

// How deep each span of a track lies in others, whose ends enclose it; of a counter 0.
std::vector<int> depths(const TimelinePart::Track& track);

}  // namespace asup::report
