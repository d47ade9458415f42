#include "asup/report/timeline/job_timeline.h"

#include <algorithm>
#include <map>

namespace asup::report {
namespace {

constexpr std::size_t kMostOfJob = 2'000'000;  // events: 128 MB of memory
constexpr std::size_t kLeastOfProcess = 2'000;
constexpr std::size_t kMostTracks = 1000;     // of a process
constexpr std::ptrdiff_t kMostClocks = 1000;  // estimates, the newest

// A process tells of its tracks in the same order every time; some have one name: the first of a
// name is the first again.
void append(TimelinePart& to, TimelinePart&& more) {
  std::map<std::string, std::size_t> seen;
  for (auto& track : more.tracks) {
    std::size_t before = seen[track.name]++;
    const auto known = std::find_if(to.tracks.begin(), to.tracks.end(), [&](const auto& each) {
      return each.name == track.name && before-- == 0;
    });
    if (known == to.tracks.end()) {
      if (to.tracks.size() < kMostTracks) to.tracks.push_back(std::move(track));
      continue;
    }
    known->dropped += track.dropped;
    known->events.insert(known->events.end(), track.events.begin(), track.events.end());
  }
  to.clock.insert(to.clock.end(), more.clock.begin(), more.clock.end());
  const auto excess = std::max<std::ptrdiff_t>(std::ssize(to.clock) - kMostClocks, 0);
  to.clock.erase(to.clock.begin(), to.clock.begin() + excess);
  to.name = more.name;
  to.order = more.order;
}

void put_on_clock(TimelinePart::Track& track, const ClockMap& clock) {
  for (TimelineEvent& event : track.events) {
    event.begin = clock(event.begin);
    if (event.kind == TimelineEvent::Kind::span) event.end = clock(event.end);
  }
  std::stable_sort(track.events.begin(), track.events.end(),
                   [](const TimelineEvent& a, const TimelineEvent& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
                   });
}

}  // namespace

std::size_t JobTimeline::share_of_process(int processes) {
  return std::clamp(kMostOfJob / static_cast<std::size_t>(std::max(processes, 1)), kLeastOfProcess,
                    kMostOfProcess);
}

void JobTimeline::add(std::string_view packed) {
  TimelinePart part = unpack(packed, names_);
  auto known = std::find_if(processes_.begin(), processes_.end(),
                            [&](const auto& each) { return each.process == part.process; });
  if (known == processes_.end()) {
    known = processes_.insert(processes_.end(), TimelinePart{});
    known->process = part.process;
    known->host = part.host;
  }
  append(*known, std::move(part));
  keep_newest(known->tracks, most_of_process_);
}

std::vector<const TimelinePart*> JobTimeline::processes() const {
  std::vector<const TimelinePart*> all;
  for (const TimelinePart& process : processes_) all.push_back(&process);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto* a, const auto* b) { return a->order < b->order; });
  return all;
}

std::vector<TimelinePart> JobTimeline::on_one_clock() const {
  std::vector<TimelinePart> all;
  for (const TimelinePart* process : processes()) {
    TimelinePart part = *process;
    std::erase_if(part.tracks, [](const auto& track) { return track.events.empty(); });
    const ClockMap clock(part.clock);
    for (auto& track : part.tracks) put_on_clock(track, clock);
    all.push_back(std::move(part));
  }
  return all;
}

}  // namespace asup::report
