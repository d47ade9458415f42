// JSON from outside: of a file, a variable, a peer. What is nested deeper than anything that asup
// writes is refused, since the library copies, compares and prints by recursion: a text of brackets
// would end the process. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "asup/base/error.h"

namespace asup {

inline constexpr int kMostJsonDepth = 64;  // objects and lists within each other

// As far as brackets tell, outside of quotes.
bool is_nested_too_deeply(std::string_view json);

// Throws BadInput that says what is wrong.
template <typename Json = nlohmann::json>
Json parse_json(std::string_view text) {
  require(!is_nested_too_deeply(text), "JSON with more than {} levels", kMostJsonDepth);
  try {
    return Json::parse(text);
  } catch (const typename Json::exception& error) {
    throw BadInput(error.what());
  }
}

// The same, discarded where anything is wrong.
template <typename Json = nlohmann::json>
Json try_json(std::string_view text) {
  if (is_nested_too_deeply(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The whole number that it is, named in messages. Throws BadInput where it is none of these; the
// library would cut what does not fit.
template <typename Number, typename Json>
Number whole_of(const Json& value, const char* name,
                Number least = std::numeric_limits<Number>::min(),
                Number most = std::numeric_limits<Number>::max()) {
  const bool fits = value.is_number_unsigned()
                        ? std::cmp_less_equal(value.template get<std::uint64_t>(), most) &&
                              std::cmp_greater_equal(value.template get<std::uint64_t>(), least)
                        : value.is_number_integer() &&
                              std::cmp_less_equal(value.template get<std::int64_t>(), most) &&
                              std::cmp_greater_equal(value.template get<std::int64_t>(), least);
  require(fits, "its '{}' is {}, not a number from {} to {}", name, value.dump(), least, most);
  return value.template get<Number>();
}

// The one that it has by this key; the list of them.
template <typename Number, typename Json>
Number whole_in(const Json& json, const char* key,
                Number least = std::numeric_limits<Number>::min(),
                Number most = std::numeric_limits<Number>::max()) {
  return whole_of<Number>(json.at(key), key, least, most);
}
template <typename Number, typename Json>
std::vector<Number> wholes_in(const Json& json, const char* key) {
  std::vector<Number> numbers;
  for (const Json& value : json.at(key)) numbers.push_back(whole_of<Number>(value, key));
  return numbers;
}

}  // namespace asup
