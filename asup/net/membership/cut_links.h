// Links between members that are of no use any more though both ends are still there, and who has
// to go for that: as few members as may be. Logic only; used from one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/membership/roster.h"

namespace asup::net {

class CutLinks {
 public:
  // `id` tells of its link to `other`, which broke the protocol or may be as innocent as itself.
  void add(std::uint64_t id, std::uint64_t other, bool breach, Clock::time_point now);
  // One of the ends is gone, or all links are made anew.
  void forget(std::uint64_t id);
  void clear();

  // Whoever ends is told of by many, and by its own connection: that is waited for first.
  bool due(Clock::time_point now) const { return due_ && now >= *due_; }
  std::set<std::uint64_t> ends() const;

  struct Choice {
    std::uint64_t id;
    std::string why;
  };
  // Who goes next, so that all who stay are linked; nobody where they are. Who broke the protocol
  // goes first, then whose links are cut most; of those, a worker before a server, which all need,
  // and the highest rank, since the lowest keeps the run's folder.
  std::optional<Choice> next(const Roster& roster) const;

 private:
  std::set<std::pair<std::uint64_t, std::uint64_t>> cut_;  // the lower id first
  std::set<std::uint64_t> breaches_;
  std::optional<Clock::time_point> due_;
};

}  // namespace asup::net
