#include "asup/collective/verify/site.h"

#include <algorithm>

#include "asup/collective/verify/access.h"

namespace asup::collective::proof {

int lanes_of(const std::vector<Plan>& plans) {
  std::size_t most = 0;
  for (const Plan& plan : plans) most = std::max(most, plan.lanes.size());
  return static_cast<int>(most);
}

bool any_reaches_peer(const std::vector<Plan>& plans) {
  for (const Plan& plan : plans) {
    for (const Lane& lane : plan.lanes) {
      for (const Round& round : lane) {
        if (std::any_of(round.begin(), round.end(), reaches_peer)) return true;
      }
    }
  }
  return false;
}

}  // namespace asup::collective::proof
