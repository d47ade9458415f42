// Links of this member that may be of no use any more: which of them are cut. The coordinator then
// says who goes, or this member where there is no coordinator any more. Used from the membership's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "asup/net/membership/control.h"
#include "asup/net/membership/host_probe.h"
#include "asup/net/membership/link_news.h"

namespace asup::net {

class DoubtedLinks {
 public:
  void take(const Member& other, LinkNews news);
  // While another link, or the coordinator, is quiet: what keeps their words away may keep those of
  // others away of whom nothing is awaited just now.
  void doubt(const Member& other);
  void doubt_no_more();
  bool any_quiet() const;
  // Nothing more needs to be found out about it, or about any.
  void forget(std::uint64_t id) { doubts_.erase(id); }
  void clear() { doubts_.clear(); }

  // Asks the hosts of quiet links whether they are there. needs: called every second or so.
  void look(Clock::time_point now);

  // Cut links that were not told of yet.
  std::vector<Cut> untold();
  // The other ends of all that are cut.
  std::vector<Member> cut() const;

 private:
  struct Doubt {
    Member other;
    bool quiet = false;  // else it is doubted for others' silence alone
    std::optional<HostProbe> probe{};
    bool cut = false;
    bool breach = false;
    bool told = false;
  };

  std::map<std::uint64_t, Doubt> doubts_;  // by the other's id
};

}  // namespace asup::net
