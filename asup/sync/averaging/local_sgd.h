// Local SGD as a way of training (local_replica.h): its options, and what follows from them.
#pragma once

#include "asup/config/step_or_share.h"
#include "asup/sync/averaging/exchange_dtype.h"
#include "asup/sync/averaging/local_replica.h"
#include "asup/sync/averaging/timed_rounds.h"
#include "asup/sync/non_finite_setting.h"
#include "asup/sync/way.h"

namespace asup {

// Steps between two merges: a number, or as the loss and the learning rate allow
// (adaptive_interval.h).
struct MergeInterval {
  std::int64_t steps = 8;
  bool adaptive = false;

  MergeInterval() = default;
  MergeInterval(std::int64_t every) : steps(every) {}  // NOLINT: `.every = 4`
  static MergeInterval automatic();

  static constexpr std::string_view kForm = "N|auto";
  static constexpr std::string_view kWanted = "a number of steps (allowed: 1 … 1e9) or auto";
  static std::optional<MergeInterval> from_text(std::string_view text);
  std::string to_text() const;
};

struct LocalSgd {
  MergeInterval every{};
  std::int64_t first_every = 16;  // with every = auto: adaptive_interval.h
  double every_seconds = 60;
  StepOrShare local_after{};  // models are merged after every step at first, until then
  MergeState merge_state = MergeState::average;
  ExchangeDtype exchange_dtype = ExchangeDtype::f32;
  double jitter_ms = 0;
  TimedRounds rounds{};  // for asup train
  NonFinite non_finite = NonFinite::skip;
};

const Way& way_of(const LocalSgd&);

}  // namespace asup
