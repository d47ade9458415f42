#include "asup/net/membership/admission.h"

#include "asup/base/error.h"
#include "asup/base/version.h"

namespace asup::net {

std::optional<Refusal> Admission::admit(const Hello& hello) {
  if (auto refusal = refusal_of_version(hello)) return refusal;
  std::string reason = why_not(hello);
  if (!reason.empty()) return Refusal{std::move(reason), true};
  members_.emplace(hello.member.rank, hello.member);
  return std::nullopt;
}

std::optional<Refusal> Admission::refusal_of_version(const Hello& hello) {
  if (hello.protocol == kControlVersion) return std::nullopt;
  return Refusal{
      fmt::format(
          "{} speaks protocol {} (asup {}) and the coordinator protocol {} (asup {}): install the "
          "same asup on all hosts",
          hello.member.describe(), hello.protocol, hello.version, kControlVersion, kVersion),
      true};
}

std::string Admission::why_not(const Hello& hello) const {
  const std::string who = hello.member.describe();
  const Roles theirs{hello.size - hello.servers, hello.servers};
  if (theirs != roles_)
    return fmt::format(
        "{} takes part in a job of {}, but this job has {}: start all of them with the same number",
        who, theirs.describe(), roles_.describe());
  if (hello.member.rank < 0 || hello.member.rank >= roles_.members())
    return fmt::format("{} is not one of the ranks 0 to {}", who, roles_.members() - 1);
  if (hello.member.server != roles_.server(hello.member.rank))
    return fmt::format("{} has the place of {}", who,
                       name_member(hello.member.rank, roles_.server(hello.member.rank)));
  const auto taken = members_.find(hello.member.rank);
  if (taken == members_.end()) return "";
  return fmt::format("two processes claim {}: pid {} on {}, which was first, and pid {} on {}",
                     name_member(hello.member.rank, hello.member.server), taken->second.pid,
                     taken->second.hostname, hello.member.pid, hello.member.hostname);
}

std::vector<int> Admission::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < roles_.members(); ++rank)
    if (!has(rank)) ranks.push_back(rank);
  return ranks;
}

std::string Admission::describe_missing(Seconds waited) const {
  std::vector<int> here;
  for (const auto& [rank, member] : members_) here.push_back(rank);
  return fmt::format("{} never joined within {:.3g} s; {} did", name_members(missing(), roles_),
                     waited.count(), name_members(here, roles_));
}

Roster Admission::roster() const {
  check(complete(), "a roster of {} members out of {}", members_.size(), roles_.members());
  Roster roster{1, {}};
  for (const auto& [rank, member] : members_) {
    roster.members.push_back(member);
    roster.members.back().id = static_cast<std::uint64_t>(rank) + 1;
  }
  return roster;
}

}  // namespace asup::net
