// Who of a generation is gone, and whether those who stay may go on without them. Logic only; the
// coordinator's.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "asup/net/membership/control.h"

namespace asup::net {

class Losses {
 public:
  // A generation begins: nobody of it is gone.
  void begin(const Roster& roster);
  void lose(const Loss& loss);
  void leave(const Member& member) { ended_.insert(member.id); }
  // These workers have agreed to go on without the others.
  void agree(std::vector<std::uint64_t> workers) { agreed_ = std::move(workers); }

  // Who had that place and was lost; null: nobody.
  const Member* lost(int rank) const;
  const std::vector<std::uint64_t>& agreed() const { return agreed_; }
  // Why these of this generation may not go on without the others; empty: they may (parting.h).
  std::string why_not_go_on(const std::vector<Member>& staying) const;

 private:
  std::map<int, Member> lost_;         // by rank
  std::set<std::uint64_t> ended_;      // ids of those who ended for sure
  std::vector<std::uint64_t> agreed_;  // ids of workers who last agreed to go on
};

}  // namespace asup::net
