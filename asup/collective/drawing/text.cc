#include "asup/collective/drawing/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace asup::collective::drawing {
namespace {

using Events = std::span<const Event>;

// Of the front of `events`, those that agree with its first.
template <typename Key>
Events group(Events events, Key key) {
  const auto end = std::find_if(events.begin(), events.end(), [&](const Event& event) {
    return key(event) != key(events.front());
  });
  return {events.begin(), end};
}

// Signals of one tick say little one by one: they are a barrier.
std::string lines_of(const Spec& spec, Events tick, std::size_t most) {
  std::string text;
  std::size_t lines = 0, signals = 0;
  for (const Event& event : tick) {
    signals += event.is_signal();
    if (++lines <= most) text += fmt::format("    {}\n", describe(event, spec));
  }
  if (signals == tick.size() && signals > most)
    return fmt::format("    {} signals: {}; {}; … {}\n", signals, describe(tick[0], spec),
                       describe(tick[1], spec), describe(tick.back(), spec));
  if (lines > most) text += fmt::format("    … and {} more like these\n", lines - most);
  return text;
}

std::string lane_in_words(const Spec& spec, Events lane, const TextLimits& limits) {
  std::string text;
  const int ticks = lane.back().tick, shown_last = 3;
  const bool all = ticks <= limits.ticks;
  while (!lane.empty()) {
    const Events tick = group(lane, [](const Event& event) { return event.tick; });
    const int now = tick.front().tick;
    if (all || now <= limits.ticks - shown_last || now > ticks - shown_last)
      text += fmt::format("  {}\n", now) + lines_of(spec, tick, limits.lines_a_tick);
    else if (now == limits.ticks - shown_last + 1)
      text += fmt::format("  … {} more\n", ticks - limits.ticks);
    lane = lane.subspan(tick.size());
  }
  return text;
}

}  // namespace

std::string text_of(const Spec& spec, const Timeline& timeline, const TextLimits& limits) {
  if (timeline.events.empty()) return "  nothing to do\n";
  std::string text;
  for (Events rest = timeline.events; !rest.empty();) {
    const Events lane = group(rest, [](const Event& event) { return event.lane; });
    if (timeline.lanes > 1) text += fmt::format("lane {}\n", lane.front().lane);
    text += lane_in_words(spec, lane, limits);
    rest = rest.subspan(lane.size());
  }
  return text;
}

}  // namespace asup::collective::drawing
