// Who holds up a merge, by the links that do not get rid of their bytes. Values only.
#pragma once

#include <cstdint>
#include <vector>

namespace asup::gossip {

struct StuckLink {
  int from = 0, to = 0;     // workers
  std::uint64_t bytes = 0;  // that have not arrived
};

// The workers that these links are done without: first the one at the ends of most of them, of
// several the one with most bytes, and so on until none is left. `first`, which all wait for, is
// never one of them: where it is at the ends of most, it is the slow one, and its links count no
// more; where it has as many as another, the other goes. Ascending.
std::vector<int> who_holds_up(std::vector<StuckLink> links, int first);

}  // namespace asup::gossip
