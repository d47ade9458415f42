#include "asup/bench/compare/strategies.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "asup/distribute/ways.h"

namespace asup::bench {

std::string value_of(const std::vector<std::string>& words, const std::string& flag) {
  std::string value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(flag + "=")) value = words[i].substr(flag.size() + 1);
  }
  return value;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool Way::has_servers(const std::string& flags_of_all) const {
  const std::vector<std::string> all = words_of(flags_of_all + " " + flags);
  const std::array ways{value_of(all, "--sync"), value_of(all, "--then")};
  return std::any_of(ways.begin(), ways.end(), [](const std::string& name) {
    const asup::Way* way = find_way(name);
    return way && way->capabilities(way->usual()).needs_servers;
  });
}

std::vector<Way> known_ways() {
  std::vector<Way> ways{
      {"allreduce", "--sync allreduce", true},
      {"balance", "--sync allreduce --balance"},
      {"local", "--sync local --every 16", true},
      {"local-auto", "--sync local --every auto"},
      {"rounds", "--sync local --round-seconds 5", true},
      {"diloco",
       "--sync diloco --every 50 --exchange-dtype bf16 --outer-lr 0.9 --outer-momentum 0.8 "
       "--optimizer adamw --lr 0.001",
       true},
      {"gossip", "--sync gossip --every 8", true},
      {"adpsgd", "--sync adpsgd --every 8", true},
      {"bsp", "--sync server --pace bsp"},
      {"ssp", "--sync server --pace ssp --staleness 4"},
      {"asp", "--sync server --pace asp"},
      {"asup", "--sync asup"},
      {"frozen", "--sync asup --freeze-pace"}};
  std::erase_if(ways, [](const Way& way) { return !find_way(value_of(way.words(), "--sync")); });
  return ways;
}

std::vector<std::string> names_of_known_ways() {
  std::vector<std::string> names;
  for (const Way& way : known_ways()) names.push_back(way.name);
  return names;
}

std::vector<std::string> usual_for_slow_links() {
  std::vector<std::string> names;
  for (const Way& way : known_ways())
    if (way.for_slow_links) names.push_back(way.name);
  return names;
}

std::vector<std::string> usual_for_stragglers() {
  const std::string first = fmt::format("--sync {}", asup::ways().front()->name);
  std::vector<std::string> names;
  for (const Way& way : known_ways())
    if (way.has_servers() || way.flags.starts_with(first)) names.push_back(way.name);
  return names;
}

Way parse_way(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const bool is_plain =
      !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
        return std::isalnum(letter) || letter == '-' || letter == '_';
      });
  require(equals != std::string::npos && is_plain && text.size() > equals + 1,
          "--way '{}': write a name of letters, digits and dashes, and flags of asup train, as in "
          "--way 'local4=--sync local --every 4'",
          text);
  for (const Way& way : known_ways())
    require(way.name != name, "--way {}: there is one already, '{}'; take another name", name,
            way.flags);
  return {name, text.substr(equals + 1)};
}

}  // namespace asup::bench
