// What one process tells of its timeline, as bytes for whoever writes the file. Values only; safe
// from any thread, for different Names.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "asup/base/clock_offset.h"
#include "asup/base/timeline.h"

namespace asup::report {

// Names of events, which stay where they are.
class TimelineNames {
 public:
  const char* keep(std::string_view name);

 private:
  std::set<std::string, std::less<>> names_;
};

struct TimelinePart {
  struct Track {
    std::string name;
    std::uint64_t dropped = 0;
    std::vector<TimelineEvent> events{};
  };
  std::uint64_t process = 0;  // no other process of the job has this number
  std::string name{};         // "rank 1"
  std::string host{};
  int order = 0;                     // among the processes
  std::vector<ClockOffset> clock{};  // to that of whoever collects; none: it is his own
  std::vector<Track> tracks{};
};

// Of all tracks together, the newest `most` events.
void keep_newest(std::vector<TimelinePart::Track>& tracks, std::size_t most);

std::string pack(const TimelinePart& part);
// Throws BadInput for bytes that pack() does not make.
TimelinePart unpack(std::string_view bytes, TimelineNames& names);

}  // namespace asup::report
