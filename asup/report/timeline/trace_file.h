// A job's timeline as a file in the Trace Event format, compressed, which Perfetto and
// chrome://tracing open (docs/timeline.md). Functions only; safe from any thread, for different
// files.
//
// A process of the trace is a rank, a thread of it a track. The first line holds what a report
// shows of it, as otherData.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "asup/report/timeline/job_timeline.h"

namespace asup::report {

// Throws Error where it cannot be written.
void write_timeline(const std::string& path, const JobTimeline& timeline);

// otherData of such a file; nothing where there is no such file, or another one.
std::optional<nlohmann::ordered_json> read_timeline_view(const std::string& path);

}  // namespace asup::report
