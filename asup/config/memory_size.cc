#include "asup/config/memory_size.h"

#include <fmt/format.h>

#include <cmath>

#include "asup/base/numbers.h"

namespace asup {
namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr double kMost = 1e15;

}  // namespace

std::optional<MemorySize> MemorySize::from_text(std::string_view text) {
  if (text == "none") return MemorySize{};
  double unit = 1;
  if (const auto power = text.empty() ? text.npos : kUnits.find(text.back()); power != text.npos) {
    unit = std::pow(1024, static_cast<double>(power + 1));
    text.remove_suffix(1);
  }
  const auto number = number_in<double>(text);
  if (!number || !(*number > 0) || *number * unit > kMost || *number * unit < 1)
    return std::nullopt;
  return MemorySize{std::llround(*number * unit)};
}

std::string MemorySize::to_text() const {
  if (!bytes) return "none";
  std::int64_t number = *bytes;
  std::size_t power = 0;
  for (; number % 1024 == 0 && power < kUnits.size(); ++power) number /= 1024;
  return fmt::format("{}{}", number, power == 0 ? "" : kUnits.substr(power - 1, 1));
}

}  // namespace asup
