#include "asup/net/membership/roster.h"

#include <fmt/format.h>

#include <algorithm>

namespace asup::net {

std::string Member::describe() const {
  return fmt::format("{} (pid {} on {})", name_member(rank, server), pid, hostname);
}

Roles Roster::roles() const {
  const auto is_server = [](const Member& member) { return member.server.has_value(); };
  const auto servers = std::count_if(members.begin(), members.end(), is_server);
  return {size() - static_cast<int>(servers), static_cast<int>(servers)};
}

std::span<const Member> Roster::workers() const {
  return std::span(members).first(static_cast<std::size_t>(roles().workers));
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

Roster next_generation(std::uint64_t generation, std::vector<Member> staying,
                       const std::vector<Member>& newcomers) {
  std::sort(staying.begin(), staying.end(),
            [](const Member& one, const Member& other) { return one.rank < other.rank; });
  const auto first_server = std::find_if(staying.begin(), staying.end(),
                                         [](const Member& member) { return member.server; });
  staying.insert(first_server, newcomers.begin(), newcomers.end());
  Roster roster{generation, std::move(staying)};
  int server = 0;
  for (int rank = 0; rank < roster.size(); ++rank) {
    Member& member = roster.members[static_cast<std::size_t>(rank)];
    member.rank = rank;
    if (member.server) member.server = server++;
  }
  return roster;
}

}  // namespace asup::net
