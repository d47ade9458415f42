// A moment of a run, said as a number of steps or as a share of the run. Pure; safe from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace asup::train {

struct StepOrShare {
  double number = 0;
  bool is_share = false;  // in percent

  // Of a run of so many steps.
  std::int64_t steps(std::int64_t of) const;
};

// "500", or "30%": from 0% to 100%. Nothing for other texts.
std::optional<StepOrShare> step_or_share_in(std::string_view text);

}  // namespace asup::train
