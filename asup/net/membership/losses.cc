#include "asup/net/membership/losses.h"

#include <algorithm>

#include "asup/net/membership/parting.h"

namespace asup::net {

void Losses::begin(const Roster& roster) {
  *this = {};
  for (const Member& worker : roster.workers()) agreed_.push_back(worker.id);
}

void Losses::lose(const Loss& loss) {
  lost_.emplace(loss.member.rank, loss.member);
  if (loss.ended) ended_.insert(loss.member.id);
}

const Member* Losses::lost(int rank) const {
  const auto found = lost_.find(rank);
  return found == lost_.end() ? nullptr : &found->second;
}

std::string Losses::why_not_go_on(const std::vector<Member>& staying) const {
  Parting parting{.before = static_cast<int>(agreed_.size()), .with_coordinator = true};
  for (const std::uint64_t id : agreed_) {
    const bool stays =
        std::ranges::any_of(staying, [&](const auto& each) { return each.id == id; });
    parting.left += stays ? 1 : 0;
    parting.ended += !stays && ended_.contains(id) ? 1 : 0;
  }
  return parting.why_not_go_on();
}

}  // namespace asup::net
