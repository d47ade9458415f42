// Rounds of a given time: workers go at their own pace and merge when it is over. Options of the
// ways that can do so. Values only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "asup/base/clock.h"
#include "asup/config/setting.h"
#include "asup/sync/way.h"

namespace asup {

// How long those who have come to a merge wait for late workers.
struct MergeDeadline {
  std::optional<double> seconds{};  // zero: as long as it takes; none: two rounds

  static constexpr std::string_view kForm = "X|usual";
  static constexpr std::string_view kWanted = "a number of seconds (allowed: 0 … 1e6) or usual";
  static std::optional<MergeDeadline> from_text(std::string_view text);
  std::string to_text() const;
};

struct TimedRounds {
  double round_seconds = 0;  // zero: there are none
  MergeDeadline merge_deadline{};

  bool any() const { return round_seconds > 0; }
};

std::span<const config::Setting> settings_of_timed_rounds();
// Throws BadInput for a deadline without rounds.
void check_timed_rounds(const TimedRounds& rounds);
// Workers that go by such rounds are not in lockstep.
void describe_rounds(const TimedRounds& rounds, Capabilities& capabilities);

}  // namespace asup
