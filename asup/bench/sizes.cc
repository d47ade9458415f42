#include "asup/bench/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "asup/base/error.h"

namespace asup::bench {
namespace {

struct Unit {
  std::string_view name;
  int shift;
};
constexpr Unit kUnits[] = {{"G", 30}, {"M", 20}, {"K", 10}, {"", 0}};
constexpr std::size_t kMostBytes = std::size_t{1} << 50;  // whatever they are written as

std::size_t parse_size(const std::string& word) {
  std::size_t number = 0;
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                  [&](const Unit& known) { return known.name == suffix; });
  const bool is_size = error == std::errc() && unit != std::end(kUnits) && number >= 1 &&
                       number <= kMostBytes >> unit->shift;
  require(is_size,
          "--sizes: '{}' is no size; write bytes as 512, 4K, 25M or 1G, separated by commas", word);
  const std::size_t bytes = number << unit->shift;
  require(bytes >= sizeof(float), "--sizes: {} holds no element of 4 bytes", word);
  return bytes;
}

}  // namespace

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    sizes.push_back(parse_size(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return sizes;
}

std::string size_word(std::size_t bytes) {
  for (const Unit& unit : kUnits) {
    const std::size_t number = bytes >> unit.shift;
    if (number > 0 && number << unit.shift == bytes) return fmt::format("{}{}", number, unit.name);
  }
  return "0";
}

}  // namespace asup::bench
