#include "asup/net/roster.h"

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

}  // namespace asup::net
