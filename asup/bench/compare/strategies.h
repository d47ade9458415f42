// Ways of staying in step, by the names that benchmarks compare them under. Values only.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "asup/base/error.h"

namespace asup::bench {

// Words with spaces between.
std::vector<std::string> words_of(const std::string& text);
// The word behind the flag where it is given last, "" where it is not.
std::string value_of(const std::vector<std::string>& words, const std::string& flag);

struct Way {
  std::string name;
  std::string flags;            // of `asup train`, with spaces between
  bool for_slow_links = false;  // among the usual ones there

  std::vector<std::string> words() const { return words_of(flags); }
  // With these flags of all runs before its own.
  bool has_servers(const std::string& flags_of_all = "") const;
};

// All that have a name, of strategies that this asup has.
std::vector<Way> known_ways();
std::vector<std::string> names_of_known_ways();
std::vector<std::string> usual_for_slow_links();
// Those through servers, beside the way that a run has unless told otherwise: as it is, and with
// parts of batches that fit workers' speeds.
std::vector<std::string> usual_for_stragglers();

// Reads "NAME=FLAGS". The name becomes part of a folder's. Throws BadInput.
Way parse_way(const std::string& text);

// Those of `all` that are named, in the order of `names`. Throws BadInput that lists all.
template <typename Item>
std::vector<Item> chosen(const std::vector<Item>& all, const std::vector<std::string>& names,
                         const char* flag) {
  std::vector<Item> some;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Item& item) { return item.name == name; });
    std::vector<std::string> known;
    for (const Item& item : all) known.push_back(item.name);
    require(found != all.end(), "{} {}: there is {}", flag, name, fmt::join(known, ", "));
    some.push_back(*found);
  }
  return some;
}

}  // namespace asup::bench
