#include "asup/base/clock_offset.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"

namespace asup {

// Sent at a and received at d by our clock, answered at b by theirs: at (a + d) / 2 ours, theirs is
// b, and off by half of the way at most.
ClockOffset estimate_offset(std::span<const RoundTrip> trips) {
  check(!trips.empty(), "no messages went to the other clock and back");
  const RoundTrip& best = *std::min_element(
      trips.begin(), trips.end(),
      [](const RoundTrip& a, const RoundTrip& b) { return a.duration() < b.duration(); });
  const std::int64_t middle = best.sent + best.duration() / 2;
  return {middle, best.answered - middle, (best.duration() + 1) / 2};
}

std::int64_t ClockMap::operator()(std::int64_t ours) const { return ours + offset_at(ours); }

std::int64_t ClockMap::offset_at(std::int64_t ours) const {
  if (estimates_.empty()) return 0;
  const auto after = std::partition_point(estimates_.begin(), estimates_.end(),
                                          [&](const ClockOffset& each) { return each.at < ours; });
  if (after == estimates_.begin()) return after->offset;
  if (after == estimates_.end()) return estimates_.back().offset;
  const ClockOffset& before = *(after - 1);
  const double share =
      static_cast<double>(ours - before.at) / static_cast<double>(after->at - before.at);
  return before.offset + std::llround(share * static_cast<double>(after->offset - before.offset));
}

}  // namespace asup
