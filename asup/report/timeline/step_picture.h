// A picture of what every process did in a span of time, as SVG for the report's page: a row for
// each track, a color for each kind of activity. Functions only; safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "asup/report/timeline/step_view.h"

namespace asup::report {

struct StepPicture {
  std::string svg;
  std::vector<Activity> activities;  // that are seen in it
};

// Of the first few processes; the colors are the page's.
StepPicture draw_step(const std::vector<TimelinePart>& processes, const StepWindow& window);

// The page's color of an activity, as CSS has it.
std::string_view color_of(Activity activity);

}  // namespace asup::report
