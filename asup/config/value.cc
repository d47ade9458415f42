#include "asup/config/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"
#include "asup/base/numbers.h"
#include "asup/base/suggest.h"

namespace asup::config {
namespace {

std::string allowed(const Bounds& bounds) {
  return bounds.any() ? "" : fmt::format(" (allowed: {})", bounds.describe());
}

// A number that a command line gives as a text.
template <typename T>
std::optional<T> number_from(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return number_in<T>(*text);
  if (const auto* number = std::get_if<T>(&value)) return *number;
  return std::nullopt;
}

}  // namespace

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return std::visit([](const auto& other) { return fmt::format("{}", other); }, value);
}

std::string quoted(const Value& value) {
  const bool is_text = std::holds_alternative<std::string>(value);
  return is_text ? fmt::format("'{}'", std::get<std::string>(value)) : text_of(value);
}

bool Bounds::holds(double value) const {
  if (!std::isfinite(value)) return false;
  return (above ? value > least : value >= least) && (below ? value < most : value <= most);
}

std::string Bounds::describe() const {
  const std::string also = word.empty() ? "" : fmt::format(", or {}", word);
  if (!above && !below) return fmt::format("{} … {}{}", least, most, also);
  return fmt::format("{} {}, {} {}{}", above ? "above" : "from", least, below ? "below" : "up to",
                     most, also);
}

void refuse(const Value& value, std::string_view wanted, const Bounds& bounds,
            std::string_view where) {
  throw BadInput(fmt::format("{}: {} is not {}{}", where, quoted(value), wanted, allowed(bounds)));
}

void check_bounds(const Value& value, double number, const Bounds& bounds, std::string_view where) {
  require(bounds.any() || bounds.holds(number), "{}: {} is out of range{}", where, text_of(value),
          allowed(bounds));
}

std::string text_from(const Value& value, std::span<const std::string_view> choices,
                      std::string_view where) {
  const auto* text = std::get_if<std::string>(&value);
  if (!text) refuse(value, "a text", {}, where);
  if (choices.empty() || std::find(choices.begin(), choices.end(), *text) != choices.end())
    return *text;
  const std::vector<std::string> known(choices.begin(), choices.end());
  throw BadInput(fmt::format("{}: '{}' is none of {}{}", where, *text, fmt::join(known, ", "),
                             did_you_mean(*text, known)));
}

std::int64_t whole_from(const Value& value, const Bounds& bounds, std::string_view where) {
  const auto number = number_from<std::int64_t>(value);
  if (!number) refuse(value, "a whole number", bounds, where);
  check_bounds(value, static_cast<double>(*number), bounds, where);
  return *number;
}

double real_from(const Value& value, const Bounds& bounds, std::string_view where) {
  const auto whole = number_from<std::int64_t>(value);
  const auto real = whole ? static_cast<double>(*whole) : number_from<double>(value);
  if (!real) refuse(value, "a number", bounds, where);
  check_bounds(value, *real, bounds, where);
  return *real;
}

bool truth_from(const Value& value, std::string_view where) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  const std::string text = text_of(value);
  if (text != "true" && text != "false") refuse(value, "true or false", {}, where);
  return text == "true";
}

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string toml_number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

}  // namespace asup::config
