#include "asup/base/base64.h"

#include <cstdint>

namespace asup {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) -> std::uint32_t {
      return i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0;
    };
    const std::uint32_t group = at(0) << 16 | at(1) << 8 | at(2);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  const std::string_view given = text;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.find_first_not_of(kDigits) != text.npos) return std::nullopt;
  std::string bytes;
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    group = group << 6 | static_cast<std::uint32_t>(kDigits.find(text[i]));
    if (i % 4 > 0) bytes += static_cast<char>(group >> (6 - 2 * (i % 4)) & 0xff);
  }
  return to_base64(bytes) == given ? std::optional(bytes) : std::nullopt;
}

}  // namespace asup
