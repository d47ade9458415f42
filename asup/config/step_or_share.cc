#include "asup/config/step_or_share.h"

#include <fmt/format.h>

#include <cmath>

#include "asup/base/numbers.h"

namespace asup {

std::int64_t StepOrShare::steps(std::int64_t of) const {
  return std::llround(is_share ? number / 100 * static_cast<double>(of) : number);
}

std::optional<StepOrShare> StepOrShare::from_text(std::string_view text) {
  const bool is_share = text.ends_with('%');
  if (is_share) text.remove_suffix(1);
  const auto number = number_in<double>(text);
  if (!number || !(*number >= 0) || *number > (is_share ? 100 : 1e9)) return std::nullopt;
  if (!is_share && *number != std::floor(*number)) return std::nullopt;
  return StepOrShare{*number, is_share};
}

std::string StepOrShare::to_text() const {
  return fmt::format("{}{}", number, is_share ? "%" : "");
}

}  // namespace asup
