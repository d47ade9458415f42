#include "asup/report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace asup::report {

std::string grouped(std::int64_t number) {
  const std::string digits = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string percent(double share, int digits) {
  return fmt::format("{:.{}f} %", share * 100, digits);
}

std::string loss_text(double loss) {
  return std::abs(loss) < 1e6 ? fmt::format("{:.4f}", loss) : fmt::format("{:.2e}", loss);
}

std::string clock_time(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "–:––";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = whole / 3600;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string byte_size(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 999.5 && unit + 1 < kUnits.size()) {
    size /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || size >= 99.95 ? 0 : 1;
  return fmt::format("{:.{}f} {}", size, digits, kUnits[unit]);
}

std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

int visible_width(std::string_view text) {
  int width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++width;
    }
  }
  return width;
}

std::string wrapped(std::string_view text, int width, int indent) {
  if (const auto end = text.find('\n'); end != std::string_view::npos)
    return wrapped(text.substr(0, end), width, indent) + "\n" +
           wrapped(text.substr(end + 1), width, indent);
  std::string out;
  int column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find_first_not_of(' ', at), text.size());
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    auto gap = static_cast<int>(begin - at);
    if (column > 0 && column + gap + visible_width(word) > width) {
      out += fmt::format("\n{:{}}", "", indent);
      column = gap = 0;
    }
    out += fmt::format("{:{}}{}", "", gap, word);
    column += gap + visible_width(word);
    at = end;
  }
  return out;
}

std::string table_row(std::span<const std::string> cells, std::span<const int> widths, int room) {
  std::string row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const int blanks = std::max(0, widths[i] - visible_width(cells[i])) + (i > 0 ? 2 : 0);
    room -= blanks + visible_width(cells[i]);
    if (i > 0 && room < 0) break;
    row += fmt::format("{:{}}{}", "", blanks, cells[i]);
  }
  return row;
}

}  // namespace asup::report
