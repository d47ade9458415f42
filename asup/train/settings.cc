#include "asup/train/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/numbers.h"
#include "asup/base/suggest.h"

namespace asup::train {
namespace {

using C = TrainConfig;

template <typename... Ts>
struct Overload : Ts... {
  using Ts::operator()...;
};

std::string quoted(const Value& value) {
  return std::visit(Overload{[](const std::string& text) { return fmt::format("'{}'", text); },
                             [](const auto& other) { return fmt::format("{}", other); }},
                    value);
}

void check_range(const Setting& setting, double value, std::string_view shown,
                 std::string_view where) {
  require(setting.range.holds(value), "{}: {} is out of range (allowed: {})", where, shown,
          setting.range.describe());
}

void check_choice(const Setting& setting, const std::string& text, std::string_view where) {
  const auto number = setting.takes_numbers() ? number_in<std::int64_t>(text) : std::nullopt;
  if (number) return check_range(setting, static_cast<double>(*number), text, where);
  const auto& choices = setting.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  const std::vector<std::string> known(choices.begin(), choices.end());
  throw BadInput(fmt::format("{}: '{}' is {}none of {}{}", where, text,
                             setting.takes_numbers() ? "no whole number and " : "",
                             fmt::join(known, ", "), did_you_mean(text, known)));
}

[[noreturn]] void wrong_type(const Value& value, std::string_view wanted, std::string_view where) {
  throw BadInput(fmt::format("{}: {} is not {}", where, quoted(value), wanted));
}

std::string whole_number_in(const Setting& setting) {
  return fmt::format("a whole number (allowed: {})", setting.range.describe());
}

Every every_from(const Setting& setting, const Value& value, std::string_view where) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (*text == "epoch") return {Every::Kind::epoch};
    if (*text == "never") return {Every::Kind::never};
  }
  const auto* steps = std::get_if<std::int64_t>(&value);
  if (!steps) {
    wrong_type(value,
               fmt::format("'epoch', 'never' or a number of steps (allowed: {})",
                           setting.range.describe()),
               where);
  }
  check_range(setting, static_cast<double>(*steps), quoted(value), where);
  return {Every::Kind::steps, *steps};
}

std::optional<bool> truth_in(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

// The value that `text` stands for where a T is wanted, or the text itself, which assign() refuses.
template <typename T>
Value value_in(const std::string& text, std::optional<T> parsed) {
  return parsed ? Value(*parsed) : Value(text);
}

Value parse(const Setting& setting, const std::string& text) {
  return std::visit(
      Overload{[&](std::string C::*) { return Value(text); },
               [&](std::int64_t C::*) { return value_in(text, number_in<std::int64_t>(text)); },
               [&](double C::*) { return value_in(text, number_in<double>(text)); },
               [&](bool C::*) { return value_in(text, truth_in(text)); },
               [&](Every C::*) { return value_in(text, number_in<std::int64_t>(text)); }},
      setting.field);
}

std::string text_of(const Every& every) {
  switch (every.kind) {
    case Every::Kind::never:
      return "never";
    case Every::Kind::epoch:
      return "epoch";
    case Every::Kind::steps:
      return fmt::format("{}", every.steps);
  }
  return "";
}

std::string toml_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_number(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

}  // namespace

bool Range::holds(double value) const {
  if (!std::isfinite(value)) return false;
  return (above ? value > least : value >= least) && (below ? value < most : value <= most);
}

std::string Range::describe() const {
  if (!above && !below) return fmt::format("{} … {}", least, most);
  return fmt::format("{} {}, {} {}", above ? "above" : "from", least, below ? "below" : "up to",
                     most);
}

std::string Setting::type_name() const {
  return std::visit(Overload{[&](std::string C::*) {
                               return choices.empty() ? std::string("TEXT")
                                      : takes_numbers()
                                          ? fmt::format("N|{}", fmt::join(choices, "|"))
                                          : fmt::format("{}", fmt::join(choices, "|"));
                             },
                             [](std::int64_t C::*) { return std::string("N"); },
                             [](double C::*) { return std::string("X"); },
                             [](bool C::*) { return std::string(); },
                             [](Every C::*) { return std::string("N|epoch|never"); }},
                    field);
}

const Setting* find_setting(std::string_view name) {
  for (const auto& row : settings()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const auto& row : settings()) names.emplace_back(row.name);
  return names;
}

void assign(TrainConfig& config, const Setting& setting, const Value& value,
            std::string_view where) {
  std::visit(
      Overload{[&](std::string C::*member) {
                 const auto* number = std::get_if<std::int64_t>(&value);
                 const auto* text = std::get_if<std::string>(&value);
                 if (!text && !(number && setting.takes_numbers()))
                   wrong_type(value, "a text", where);
                 const std::string chosen = text ? *text : fmt::format("{}", *number);
                 check_choice(setting, chosen, where);
                 config.*member = chosen;
               },
               [&](std::int64_t C::*member) {
                 const auto* number = std::get_if<std::int64_t>(&value);
                 if (!number) wrong_type(value, whole_number_in(setting), where);
                 check_range(setting, static_cast<double>(*number), quoted(value), where);
                 config.*member = *number;
               },
               [&](double C::*member) {
                 const auto* whole = std::get_if<std::int64_t>(&value);
                 const auto* real = std::get_if<double>(&value);
                 if (!whole && !real) {
                   wrong_type(value,
                              fmt::format("a number (allowed: {})", setting.range.describe()),
                              where);
                 }
                 const double number = whole ? static_cast<double>(*whole) : *real;
                 check_range(setting, number, quoted(value), where);
                 config.*member = number;
               },
               [&](bool C::*member) {
                 const auto* truth = std::get_if<bool>(&value);
                 if (!truth) wrong_type(value, "true or false", where);
                 config.*member = *truth;
               },
               [&](Every C::*member) { config.*member = every_from(setting, value, where); }},
      setting.field);
}

void assign_text(TrainConfig& config, const Setting& setting, const std::string& text,
                 std::string_view where) {
  assign(config, setting, parse(setting, text), where);
}

std::string text_of(const TrainConfig& config, const Setting& setting) {
  return std::visit(Overload{[&](std::string C::*member) { return config.*member; },
                             [&](Every C::*member) { return text_of(config.*member); },
                             [&](auto member) { return fmt::format("{}", config.*member); }},
                    setting.field);
}

std::string toml_of(const TrainConfig& config, const Setting& setting) {
  return std::visit(
      Overload{[&](std::string C::*member) { return toml_string(config.*member); },
               [&](double C::*member) { return toml_number(config.*member); },
               [&](Every C::*member) {
                 const std::string text = text_of(config.*member);
                 return (config.*member).kind == Every::Kind::steps ? text : toml_string(text);
               },
               [&](auto member) { return fmt::format("{}", config.*member); }},
      setting.field);
}

std::vector<std::string> to_flags(const TrainConfig& config) {
  const TrainConfig usual;
  std::vector<std::string> flags;
  for (const auto& row : settings()) {
    const std::string text = text_of(config, row);
    if (text != text_of(usual, row)) flags.push_back(fmt::format("--{}={}", row.name, text));
  }
  return flags;
}

std::string to_toml(const TrainConfig& config) {
  std::string out =
      "# The settings of this run. RunState it again with: asup train --config FILE\n";
  std::string_view group;
  for (const auto& row : settings()) {
    if (row.scope == Scope::call) continue;
    if (row.group != group) out += fmt::format("\n# {}\n", row.group);
    group = row.group;
    out += fmt::format("{} = {}  # {}\n", row.name, toml_of(config, row), row.help);
  }
  return out;
}

}  // namespace asup::train
