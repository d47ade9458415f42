#include "asup/sync/averaging/timed_rounds.h"

#include <fmt/format.h>

#include "asup/base/numbers.h"

namespace asup {
namespace {

constexpr double kUsualRounds = 2;  // that a late worker is waited for

}  // namespace

std::optional<MergeDeadline> MergeDeadline::from_text(std::string_view text) {
  if (text == "usual") return MergeDeadline{};
  const auto number = number_in<double>(text);
  if (!number || !(*number >= 0) || *number > 1e6) return std::nullopt;
  return MergeDeadline{*number};
}

std::string MergeDeadline::to_text() const {
  return seconds ? fmt::format("{}", *seconds) : "usual";
}

std::span<const config::Setting> settings_of_timed_rounds() {
  using config::field;
  static const std::vector<config::Setting> rows{
      {"round-seconds",
       field<&TimedRounds::round_seconds>(),
       "each worker trains at its own pace, and after so many seconds all models are merged; 0: no "
       "such rounds",
       {0, 1e6}},
      {"merge-deadline", field<&TimedRounds::merge_deadline>(),
       "of round-seconds: so many seconds those who have come to a merge wait for late workers, "
       "and "
       "so many it may take; who misses it joins the next one; 0: as long as it takes; usual: two "
       "rounds"}};
  return rows;
}

void check_timed_rounds(const TimedRounds& rounds) {
  if (!rounds.any())
    config::require_usual(
        settings_of_timed_rounds(), rounds, "merge-deadline",
        "without round-seconds there are no rounds whose merge somebody could miss");
}

void describe_rounds(const TimedRounds& rounds, Capabilities& capabilities) {
  if (!rounds.any()) return;
  capabilities.lockstep = false;
  capabilities.round = Seconds(rounds.round_seconds);
  capabilities.merge_deadline =
      Seconds(rounds.merge_deadline.seconds.value_or(kUsualRounds * rounds.round_seconds));
}

}  // namespace asup
