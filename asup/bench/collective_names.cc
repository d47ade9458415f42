#include "asup/bench/collective_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/suggest.h"

namespace asup::bench {
namespace {

std::string without_underscores(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  return text;
}

}  // namespace

std::string word_for(collective::Collective collective) {
  const std::string name(name_of(collective));
  return name.starts_with("all_") ? without_underscores(name) : name;
}

collective::Collective collective_of(const std::string& word) {
  std::vector<std::string> words;
  for (const auto& algorithm : collective::algorithms()) {
    if (is_point_to_point(algorithm.collective)) continue;
    const std::string known = word_for(algorithm.collective);
    if (without_underscores(known) == without_underscores(word)) return algorithm.collective;
    if (std::count(words.begin(), words.end(), known) == 0) words.push_back(known);
  }
  const std::string near = did_you_mean(word, words);
  throw BadInput(
      fmt::format("--op {}: no such collective{}", word,
                  near.empty() ? fmt::format("; there are: {}", fmt::join(words, ", ")) : near));
}

}  // namespace asup::bench
