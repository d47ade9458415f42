#include "asup/config/given.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cctype>

#include "asup/base/error.h"
#include "asup/base/files.h"

namespace asup::config {
namespace {

toml::table parse(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw BadInput(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

Value value_of(const toml::node& node, const std::string& where) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  throw BadInput(fmt::format(
      "{}: a text, a number, true or false is wanted here, not a table, list or date", where));
}

}  // namespace

void Given::say(std::string_view name, Value value, std::string where) {
  auto& said = sayings_[std::string(name)];
  if (!said.empty() && said.back().source == source_) said.pop_back();
  said.push_back({std::move(value), std::move(where), source_});
}

void Given::read_toml(const std::string& path) {
  begin_source();
  for (const auto& [key, node] : parse(path)) {
    const std::string name(key.str());
    const auto where = fmt::format("{}:{}: {}", path, key.source().begin.line, name);
    say(name, value_of(node, where), where);
  }
}

const Given::Saying* Given::find(std::string_view name) const {
  const auto found = sayings_.find(name);
  return found == sayings_.end() || found->second.empty() ? nullptr : &found->second.back();
}

std::string Given::text_before(std::string_view name, int source, const std::string& usual) const {
  std::string text = usual;
  const auto found = sayings_.find(name);
  if (found == sayings_.end()) return text;
  for (const Saying& said : found->second)
    if (said.source < source) text = text_of(said.value);
  return text;
}

void Given::forget(std::span<const std::string> names, int before) {
  for (const std::string& name : names) {
    const auto found = sayings_.find(name);
    if (found == sayings_.end()) continue;
    std::erase_if(found->second, [&](const Saying& said) { return said.source < before; });
    if (found->second.empty()) sayings_.erase(found);
  }
}

int Given::changed_by(std::string_view choice, const std::string& usual) const {
  const auto found = sayings_.find(choice);
  if (found == sayings_.end()) return 0;
  std::string before = usual;
  int source = 0;
  for (const Saying& said : found->second) {
    if (text_of(said.value) != before) source = said.source;
    before = text_of(said.value);
  }
  return source;
}

void Given::fill(const Section& section) const {
  for (const Setting& setting : section.settings)
    if (const Saying* said = find(setting.name))
      setting.field.assign(setting, section.options, said->value, said->where);
}

std::string variable_of(std::string_view name) {
  std::string variable = "ASUP_";
  for (const char c : name)
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

}  // namespace asup::config
