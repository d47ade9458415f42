#include "asup/net/membership/cut_links.h"

#include <algorithm>
#include <tuple>

#include "asup/base/error.h"

namespace asup::net {
namespace {

constexpr auto kSettle = std::chrono::seconds(2);

}  // namespace

void CutLinks::add(std::uint64_t id, std::uint64_t other, bool breach, Clock::time_point now) {
  if (!cut_.emplace(std::min(id, other), std::max(id, other)).second) return;
  if (breach) breaches_.insert(other);
  due_ = now + kSettle;
}

void CutLinks::forget(std::uint64_t id) {
  std::erase_if(cut_, [&](const auto& link) { return link.first == id || link.second == id; });
  breaches_.erase(id);
  if (cut_.empty()) due_.reset();
}

void CutLinks::clear() { *this = {}; }

std::set<std::uint64_t> CutLinks::ends() const {
  std::set<std::uint64_t> ids;
  for (const auto& [a, b] : cut_) ids.insert({a, b});
  return ids;
}

std::optional<CutLinks::Choice> CutLinks::next(const Roster& roster) const {
  std::optional<Choice> choice;
  std::tuple<bool, std::ptrdiff_t, bool, int> worst;
  for (const Member& member : roster.members) {
    std::vector<int> others;
    for (const Member& other : roster.members)
      if (cut_.contains(std::minmax({member.id, other.id}))) others.push_back(other.rank);
    if (others.empty()) continue;
    const bool breach = breaches_.contains(member.id);
    const auto order = std::tuple(breach, std::ssize(others), !member.server, member.rank);
    if (choice && order < worst) continue;
    worst = order;
    choice = {member.id,
              breach ? "it broke the protocol"
                     : fmt::format("its link to {} is cut", name_members(others, roster.roles()))};
  }
  return choice;
}

}  // namespace asup::net
