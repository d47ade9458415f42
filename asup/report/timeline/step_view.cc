#include "asup/report/timeline/step_view.h"

#include <algorithm>

namespace asup::report {
namespace {

bool is_span(const TimelineEvent& event) { return event.kind == TimelineEvent::Kind::span; }
bool is_step(const TimelineEvent& event) {
  return is_span(event) && event.activity == Activity::step;
}
double seconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

bool is_exchange(Activity activity) {
  return activity == Activity::exchange || activity == Activity::send || activity == Activity::recv;
}

// Walks through the spans within steps; the innermost counts.
void add_shares(const TimelinePart::Track& track, TimeShares& shares) {
  struct Open {
    Activity activity;
    std::int64_t end;
  };
  std::vector<Open> open;
  std::int64_t at = 0;
  const auto spend = [&](std::int64_t until) {
    while (!open.empty()) {
      const Open inner = open.back();
      const std::int64_t end = std::min(until, inner.end);
      if (end > at)
        shares.seconds[static_cast<std::size_t>(inner.activity)] += seconds_of(end - at);
      at = std::max(at, end);
      if (inner.end > until) return;
      open.pop_back();
    }
  };
  for (const TimelineEvent& event : track.events) {
    if (!is_span(event)) continue;
    spend(event.begin);
    at = std::max(at, event.begin);
    if (is_step(event)) {
      ++shares.steps;
      shares.step_seconds += seconds_of(event.end - event.begin);
    } else if (open.empty()) {
      continue;  // between steps
    }
    const bool is_inside = !open.empty();
    open.push_back({event.activity, is_inside ? std::min(event.end, open.back().end) : event.end});
  }
  spend(std::numeric_limits<std::int64_t>::max());
}

// Of several tracks, which may overlap: each by itself.
double exchange_seconds_of(const TimelinePart& process) {
  double seconds = 0;
  for (const auto& track : process.tracks)
    for (const TimelineEvent& event : track.events)
      if (is_span(event) && is_exchange(event.activity) && event.step >= 0)
        seconds += seconds_of(event.end - event.begin);
  return seconds;
}

}  // namespace

const TimelinePart::Track* training_track(const TimelinePart& process) {
  for (const auto& track : process.tracks)
    if (std::any_of(track.events.begin(), track.events.end(), is_step)) return &track;
  return nullptr;
}

std::optional<StepWindow> typical_step(const std::vector<TimelinePart>& processes) {
  const auto first = std::find_if(processes.begin(), processes.end(), [](const auto& process) {
    return training_track(process) != nullptr;
  });
  if (first == processes.end()) return std::nullopt;
  std::vector<const TimelineEvent*> steps;
  for (const TimelineEvent& event : training_track(*first)->events)
    if (is_step(event)) steps.push_back(&event);
  const auto median = steps.begin() + std::ssize(steps) / 2;
  std::nth_element(steps.begin(), median, steps.end(), [](const auto* a, const auto* b) {
    return a->end - a->begin < b->end - b->begin;
  });
  StepWindow window{(*median)->step, (*median)->begin, (*median)->end};
  const StepWindow of_first = window;
  for (const TimelinePart& process : processes) {
    const auto* track = training_track(process);
    if (!track) continue;
    for (const TimelineEvent& event : track->events) {
      const bool is_same = is_step(event) && event.step == window.step &&
                           event.begin < of_first.end && event.end > of_first.begin;
      if (is_same) window.end = std::max(window.end, event.end);
      if (is_same) window.begin = std::min(window.begin, event.begin);
    }
  }
  return window;
}

std::vector<TimeShares> time_shares(const std::vector<TimelinePart>& processes) {
  std::vector<TimeShares> all;
  for (const TimelinePart& process : processes) {
    const auto* track = training_track(process);
    if (!track) continue;
    TimeShares& shares = all.emplace_back();
    shares.name = process.name;
    add_shares(*track, shares);
    shares.exchange_seconds = exchange_seconds_of(process);
  }
  return all;
}

std::vector<int> depths(const TimelinePart::Track& track) {
  std::vector<std::int64_t> ends;
  std::vector<int> result;
  for (const TimelineEvent& event : track.events) {
    while (!ends.empty() && ends.back() <= event.begin) ends.pop_back();
    result.push_back(is_span(event) ? static_cast<int>(ends.size()) : 0);
    if (is_span(event)) ends.push_back(event.end);
  }
  return result;
}

}  // namespace asup::report
