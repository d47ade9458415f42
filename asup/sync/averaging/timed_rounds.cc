#include "asup/sync/averaging/timed_rounds.h"

#include <fmt/format.h>

#include "asup/base/numbers.h"
#include "asup/config/field_or.h"

namespace asup {
namespace {

constexpr double kUsualRounds = 2;  // that a late worker is waited for

}  // namespace

std::optional<MergeDeadline> MergeDeadline::from_text(std::string_view text) {
  if (text == config::kAuto) return MergeDeadline{};
  if (text == config::kNone) return MergeDeadline{Kind::none};
  const auto number = number_in<double>(text);
  if (!number || !(*number > 0) || *number > 1e6) return std::nullopt;
  return MergeDeadline{Kind::seconds, *number};
}

std::string MergeDeadline::to_text() const {
  if (kind == Kind::seconds) return fmt::format("{}", seconds);
  return kind == Kind::none ? config::kNone : config::kAuto;
}

std::span<const config::Setting> settings_of_timed_rounds() {
  using config::field;
  static const std::vector<config::Setting> rows{
      {"round-seconds",
       config::field_or<&TimedRounds::round_seconds, config::kNone>(),
       "each worker trains at its own pace, and after so many seconds all models are merged; none: "
       "no such rounds",
       {0, 1e6, true, false}},
      {"merge-deadline", field<&TimedRounds::merge_deadline>(),
       "of round-seconds: a merge waits for late workers for so many seconds, and may take so "
       "many; "
       "a worker that misses it joins the next one; auto: two rounds; none: as long as it takes"}};
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
  capabilities.round = Seconds(*rounds.round_seconds);
  capabilities.merge_deadline = rounds.merge_deadline.kind == MergeDeadline::Kind::automatic
                                    ? kUsualRounds * capabilities.round
                                    : Seconds(rounds.merge_deadline.seconds);
}

}  // namespace asup
