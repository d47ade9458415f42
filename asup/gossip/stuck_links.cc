#include "asup/gossip/stuck_links.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace asup::gossip {
namespace {

int worst_of(const std::vector<StuckLink>& links, int first) {
  struct Ends {
    int links = 0;
    std::uint64_t bytes = 0;
  };
  std::map<int, Ends> ends;
  for (const StuckLink& link : links)
    for (const int worker : {link.from, link.to}) {
      ++ends[worker].links;
      ends[worker].bytes += link.bytes;
    }
  const auto badness = [&](const auto& entry) {
    const auto& [worker, its] = entry;
    return std::tuple(its.links, worker != first, its.bytes, worker);
  };
  return std::max_element(ends.begin(), ends.end(),
                          [&](const auto& a, const auto& b) { return badness(a) < badness(b); })
      ->first;
}

}  // namespace

std::vector<int> who_holds_up(std::vector<StuckLink> links, int first) {
  std::vector<int> who;
  while (!links.empty()) {
    const int worst = worst_of(links, first);
    if (worst != first) who.push_back(worst);
    std::erase_if(links,
                  [&](const StuckLink& link) { return link.from == worst || link.to == worst; });
  }
  std::sort(who.begin(), who.end());
  return who;
}

}  // namespace asup::gossip
