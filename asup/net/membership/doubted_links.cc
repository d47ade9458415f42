#include "asup/net/membership/doubted_links.h"

#include <algorithm>

namespace asup::net {

void DoubtedLinks::take(const Member& other, LinkNews news) {
  if (news == LinkNews::heard) {
    const auto doubt = doubts_.find(other.id);
    if (doubt != doubts_.end() && !doubt->second.cut) doubts_.erase(doubt);
    return;
  }
  Doubt& doubt = doubts_.try_emplace(other.id, Doubt{other}).first->second;
  if (news == LinkNews::quiet) {
    doubt.quiet = true;
    if (!doubt.probe) doubt.probe = HostProbe::of(other);
    return;
  }
  doubt.cut = true;
  doubt.breach = news == LinkNews::breached;
}

void DoubtedLinks::doubt(const Member& other) {
  if (!doubts_.contains(other.id))
    doubts_.emplace(other.id, Doubt{.other = other, .probe = HostProbe::of(other)});
}

void DoubtedLinks::doubt_no_more() {
  std::erase_if(doubts_,
                [](const auto& entry) { return !entry.second.quiet && !entry.second.cut; });
}

bool DoubtedLinks::any_quiet() const {
  return std::ranges::any_of(doubts_, [](const auto& entry) { return entry.second.quiet; });
}

void DoubtedLinks::look(Clock::time_point now) {
  for (auto& [id, doubt] : doubts_) {
    if (doubt.cut || !doubt.probe) continue;
    doubt.probe->look(now);
    doubt.cut = doubt.probe->unreachable();
  }
}

std::vector<Cut> DoubtedLinks::untold() {
  std::vector<Cut> cuts;
  for (auto& [id, doubt] : doubts_) {
    if (!doubt.cut || doubt.told) continue;
    doubt.told = true;
    cuts.push_back({id, doubt.breach});
  }
  return cuts;
}

std::vector<Member> DoubtedLinks::cut() const {
  std::vector<Member> others;
  for (const auto& [id, doubt] : doubts_)
    if (doubt.cut) others.push_back(doubt.other);
  return others;
}

}  // namespace asup::net
