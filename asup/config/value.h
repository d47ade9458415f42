// Values of settings as people write them: texts, numbers, choices. Pure; safe from any thread.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace asup::config {

// As a file, a flag or a variable gives it.
using Value = std::variant<std::string, std::int64_t, double, bool>;

// As on a command line: "0.1", "true", "epoch"; a text in a message: "'epoch'".
std::string text_of(const Value& value);
std::string quoted(const Value& value);

// Allowed numbers. With `above`, `least` itself is not allowed; with `below`, `most` is not.
struct Bounds {
  double least = 0;
  double most = 0;
  bool above = false;
  bool below = false;
  std::string_view word{};  // allowed beside numbers: "auto"

  bool any() const { return least == 0 && most == 0; }  // nothing is said
  bool holds(double value) const;
  std::string describe() const;  // "1 … 4096", "above 0, up to 1000", "1 … 9, or auto"
};

inline constexpr Bounds kCount{1, 1e9};
inline constexpr Bounds kCountOrZero{0, 1e9};
inline constexpr Bounds kWhole{0, 9.0e15};  // whole numbers that a double holds exactly

// An enumerator and the word for it. A type E of choices has a function names_of(E) beside it,
// which gives an array of these.
template <typename E>
struct Named {
  std::string_view name;
  E value;
};
template <typename E>
concept Choice = std::is_enum_v<E> && requires(E value) {
  names_of(value);
};

template <Choice E>
std::string_view name_of_choice(E value) {
  for (const auto& named : names_of(value))
    if (named.value == value) return named.name;
  return "?";
}

// A type with a form of its own: "N|auto", "N|epoch|never".
template <typename T>
concept Written = requires(const T& value, std::string_view text) {
  { T::kForm } -> std::convertible_to<std::string_view>;  // for the help
  {
    T::kWanted
    } -> std::convertible_to<std::string_view>;  // for messages: "a number of steps or …"
  { T::from_text(text) } -> std::same_as<std::optional<T>>;
  { value.to_text() } -> std::same_as<std::string>;
};

// Throw BadInput that begins with `where`, says the value, what is wrong with it and what is
// allowed.
std::string text_from(const Value& value, std::span<const std::string_view> choices,
                      std::string_view where);
std::int64_t whole_from(const Value& value, const Bounds& bounds, std::string_view where);
double real_from(const Value& value, const Bounds& bounds, std::string_view where);
bool truth_from(const Value& value, std::string_view where);
[[noreturn]] void refuse(const Value& value, std::string_view wanted, const Bounds& bounds,
                         std::string_view where);
void check_bounds(const Value& value, double number, const Bounds& bounds, std::string_view where);

// As in TOML.
std::string toml_text(std::string_view text);
std::string toml_number(double value);

}  // namespace asup::config
