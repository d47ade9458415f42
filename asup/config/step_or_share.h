// A moment of a run, said as a number of steps or as a share of the run. Pure; safe from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace asup {

struct StepOrShare {
  double number = 0;
  bool is_share = false;  // in percent

  // Of a run of so many steps.
  std::int64_t steps(std::int64_t of) const;

  static constexpr std::string_view kForm = "N|P%";
  static constexpr std::string_view kWanted =
      "a number of steps, or a share of the run like 30% (allowed: 0% … 100%)";
  static std::optional<StepOrShare> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const StepOrShare&) const = default;
};

}  // namespace asup
