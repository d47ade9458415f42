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
  enum class Kind : std::uint8_t { automatic, none, seconds };
  Kind kind = Kind::automatic;  // two rounds; none: as long as it takes
  double seconds = 0;           // for Kind::seconds

  static constexpr std::string_view kForm = "X|auto|none";
  static constexpr std::string_view kWanted =
      "'auto', 'none' or a number of seconds (allowed: above 0, up to 1e6)";
  static std::optional<MergeDeadline> from_text(std::string_view text);
  std::string to_text() const;
};

struct TimedRounds {
  std::optional<double> round_seconds{};  // no value: no rounds
  MergeDeadline merge_deadline{};

  bool any() const { return round_seconds.has_value(); }
};

std::span<const config::Setting> settings_of_timed_rounds();
// Throws BadInput for a deadline without rounds.
void check_timed_rounds(const TimedRounds& rounds);
// Workers that go by such rounds are not in lockstep.
void describe_rounds(const TimedRounds& rounds, Capabilities& capabilities);

}  // namespace asup
