#include "asup/net/membership/roles.h"

#include <fmt/format.h>

#include <algorithm>

namespace asup::net {
namespace {

// "rank 1", "ranks 1, 3 and 5", "ranks 1-6 and 9".
std::string list(const char* noun, std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i >= 3) {
      parts.push_back(fmt::format("{}-{}", numbers[i], numbers[end - 1]));
      i = end;
    } else {
      parts.push_back(std::to_string(numbers[i++]));
    }
  }
  std::string text = fmt::format("{}{} ", noun, numbers.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string count(int number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace

std::optional<int> Roles::server(int member) const {
  const bool serves = member >= workers && member < members();
  return serves ? std::optional(member - workers) : std::nullopt;
}

std::string Roles::describe() const {
  if (servers == 0) return count(workers, "rank");
  return count(workers, "worker") + " and " + count(servers, "server");
}

std::string name_member(int place, std::optional<int> server) {
  return server ? fmt::format("server {}", *server) : fmt::format("rank {}", place);
}

std::string name_ranks(std::vector<int> ranks) { return list("rank", std::move(ranks)); }

std::string name_members(const std::vector<int>& members, const Roles& roles) {
  std::vector<int> ranks, servers;
  for (const int member : members) {
    const auto server = roles.server(member);
    (server ? servers : ranks).push_back(server.value_or(member));
  }
  if (servers.empty()) return name_ranks(ranks);
  const std::string of_servers = list("server", std::move(servers));
  return ranks.empty() ? of_servers : name_ranks(ranks) + " and " + of_servers;
}

}  // namespace asup::net
