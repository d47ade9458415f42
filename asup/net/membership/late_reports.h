// Workers that others have waited for in vain, as each of those says, and who has to go for that.
// Logic only; used from one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace asup::net {

class LateReports {
 public:
  using Ids = std::set<std::uint64_t>;

  // What `id` says replaces what it said before; nobody: it waits for nobody any more.
  void add(std::uint64_t id, Ids late);
  void clear() { reports_.clear(); }
  bool empty() const { return reports_.empty(); }

  // Who of those that are `here` goes: whom all the others of them say, and nobody else; or whom
  // more than half of those who last `agreed` to go on say, who may go on by that alone and by now
  // have ended. Nobody where they do not agree.
  Ids due(const Ids& here, const std::vector<std::uint64_t>& agreed) const;

 private:
  std::map<std::uint64_t, Ids> reports_;  // by whose they are
};

}  // namespace asup::net
