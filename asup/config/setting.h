// A setting: one value of an options struct, declared once, beside the struct.
//
//   struct LocalSgd { std::int64_t every = 8; … };
//   const std::vector<Setting> rows{{"every", field<&LocalSgd::every>(), "steps between two
//   merges", kCount}};
//
// From the row follow the flag, the key of a TOML file, the environment variable, the help, and
// what is refused. Values only; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "asup/base/numbers.h"
#include "asup/config/value.h"

namespace asup::config {

struct Setting;

// How one member of an options struct is read and written; `options` is the struct.
struct Field {
  std::string form;                          // for the help: "N", "X", "sgd|adam"; "": a flag
  std::string (*text)(const void* options);  // as on a command line
  std::string (*toml)(const void* options);
  void (*assign)(const Setting& setting, void* options, const Value& value, std::string_view where);
};

// What a setting belongs to.
enum class Scope : std::uint8_t {
  run,    // the run
  fixed,  // the run, and a resumed run keeps it: its checkpoint would make no sense otherwise
  call    // this call of the command: no part of config.toml
};

struct Setting {
  std::string_view name;  // of the flag (with --) and the key
  Field field;
  std::string_view help;                    // the short help shows it up to its first ';'
  Bounds bounds{};                          // of numbers
  std::vector<std::string_view> choices{};  // of texts; empty: any
  Scope scope = Scope::run;
  std::string_view group{};  // heading in the help and in config.toml
  bool common = false;       // in the short help

  bool is_flag() const { return field.form.empty(); }
  // A form in brackets, "[PORT]": without a value, the flag says "on".
  bool may_stand_alone() const { return field.form.starts_with('['); }
  std::string form() const;  // for the help
};

namespace detail {

template <typename T>
struct Member;
template <typename Options, typename T>
struct Member<T Options::*> {
  using Struct = Options;
  using Type = T;
};

template <typename T>
std::string text_of_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return value;
  else if constexpr (Choice<T>)
    return std::string(name_of_choice(value));
  else if constexpr (Written<T>)
    return value.to_text();
  else
    return text_of(Value(value));
}

template <typename T>
std::string toml_of_value(const T& value) {
  if constexpr (std::is_same_v<T, double>) return toml_number(value);
  const std::string text = text_of_value(value);
  const bool is_number = std::is_arithmetic_v<T> || (Written<T> && number_in<std::int64_t>(text));
  return is_number ? text : toml_text(text);
}

template <typename T>
T value_from(const Setting& setting, const Value& value, std::string_view where) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text_from(value, setting.choices, where);
  } else if constexpr (std::is_same_v<T, bool>) {
    return truth_from(value, where);
  } else if constexpr (std::is_same_v<T, double>) {
    return real_from(value, setting.bounds, where);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return whole_from(value, setting.bounds, where);
  } else if constexpr (Choice<T>) {
    std::vector<std::string_view> names;
    for (const auto& named : names_of(T{})) names.push_back(named.name);
    const std::string chosen = text_from(value, names, where);
    for (const auto& named : names_of(T{}))
      if (named.name == chosen) return named.value;
    return T{};
  } else {
    static_assert(Written<T>, "a setting is a text, a number, a truth, a choice or written");
    const auto read = T::from_text(text_of(value));
    if (!read) refuse(value, T::kWanted, setting.bounds, where);
    return *read;
  }
}

template <typename T>
std::string form_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return "";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return "N";
  } else if constexpr (std::is_same_v<T, double>) {
    return "X";
  } else if constexpr (Choice<T>) {
    std::string form;
    for (const auto& named : names_of(T{}))
      form += (form.empty() ? "" : "|") + std::string(named.name);
    return form;
  } else if constexpr (Written<T>) {
    return std::string(T::kForm);
  } else {
    return "TEXT";
  }
}

}  // namespace detail

// The field of a member: field<&LocalSgd::every>().
template <auto member>
Field field() {
  using Options = typename detail::Member<decltype(member)>::Struct;
  using T = typename detail::Member<decltype(member)>::Type;
  return {detail::form_of<T>(),
          [](const void* options) {
            return detail::text_of_value(static_cast<const Options*>(options)->*member);
          },
          [](const void* options) {
            return detail::toml_of_value(static_cast<const Options*>(options)->*member);
          },
          [](const Setting& setting, void* options, const Value& value, std::string_view where) {
            static_cast<Options*>(options)->*member = detail::value_from<T>(setting, value, where);
          }};
}

// An options struct and its rows.
struct Section {
  std::span<const Setting> settings;
  void* options = nullptr;
};

const Setting* find(std::span<const Setting> settings, std::string_view name);

// Throws BadInput unless the setting is as in `usual`: it would have no effect, which nobody wants
// unsaid. `because`: "the pace is asp, not ssp".
void require_usual(std::span<const Setting> settings, const void* options, const void* usual,
                   std::string_view name, std::string_view because);
template <typename Options>
void require_usual(std::span<const Setting> settings, const Options& options, std::string_view name,
                   std::string_view because) {
  const Options usual{};
  require_usual(settings, &options, &usual, name, because);
}

}  // namespace asup::config
