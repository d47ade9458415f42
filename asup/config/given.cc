#include "asup/config/given.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "asup/base/error.h"
#include "asup/base/files.h"

// The library asserts what texts break ("[{"), and where nothing is asserted it takes it for
// granted.
#undef NDEBUG
#define TOML_ASSERT(condition) \
  static_cast<void>((condition) ? 0 : throw ::asup::BadInput("it is no TOML"))
// In what it promises not to throw from, that ends the process, as its own assertion would.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wterminate"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

namespace asup::config {
namespace {

// The line of the first character that is not ASCII and stands outside of quotes and comments, or
// of a quote that opens within a value; 0: there is none. TOML has none, and what the library makes
// of them is undefined.
int line_of_stray_character(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // says that it is UTF-8
  std::string_view quote;                                       // that ends the text it is in
  bool is_comment = false;
  char last = '\n';  // outside of quotes, but for blanks
  int line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '\n' && quote.size() < 3) {
      is_comment = false;
      quote = {};
      last = c;
    } else if (is_comment) {
      continue;
    } else if (quote.empty()) {
      if (c == '#') is_comment = true;
      const bool opens = c == '"' || c == '\'';
      const bool may_open = std::string_view("\n=,[{.").find(last) != std::string_view::npos;
      if ((c & 0x80) != 0 || (opens && !may_open)) return line;
      if (c != ' ' && c != '\t' && c != '\r') last = c;
      if (!opens) continue;
      const std::string_view next = text.substr(i, 3);
      quote = next == std::string(3, c) ? next : next.substr(0, 1);
      i += quote.size() - 1;
    } else if (c == '\\' && quote[0] == '"') {
      if (++i < text.size() && text[i] == '\n') ++line;
    } else if (text.substr(i).starts_with(quote)) {
      i += quote.size() - 1;
      // Of five quotes, the first two are of the text.
      if (quote.size() == 3) i = std::min(text.find_first_not_of(c, i), i + 3) - 1;
      quote = {};
    }
  }
  return 0;
}

toml::table parse(const std::string& path) {
  const std::string text = read_file(path);
  const int stray = line_of_stray_character(text);
  require(stray == 0, "{}:{}: a letter that is not ASCII, or a quote, stands where none may", path,
          stray);
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw BadInput(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  } catch (const BadInput& error) {
    throw BadInput(fmt::format("{}: {}", path, error.what()));
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
