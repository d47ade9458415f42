#include "asup/net/roster.h"

#include <fmt/format.h>

#include <algorithm>

namespace asup::net {

std::string Member::describe() const {
  return fmt::format("rank {} (pid {} on {})", rank, pid, hostname);
}

bool Roster::one_host() const {
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.host == members.front().host; });
}

const Member* Roster::find(std::uint64_t id) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.id == id; });
  return found == members.end() ? nullptr : &*found;
}

std::string name_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i >= 3) {
      parts.push_back(fmt::format("{}-{}", ranks[i], ranks[end - 1]));
      i = end;
    } else {
      parts.push_back(std::to_string(ranks[i++]));
    }
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

}  // namespace asup::net
