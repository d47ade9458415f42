// Numbers in text. Pure; safe from any thread.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace asup {

// The number that the whole text is; nothing where it is none, or none that T holds.
template <typename T>
std::optional<T> number_in(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace asup
