#include "asup/sync/gradients/made_steps.h"

#include <algorithm>
#include <array>
#include <vector>

#include "asup/base/error.h"

namespace asup::sync {

FurthestSteps furthest_steps(Communicator& communicator, const MadeSteps& here) {
  std::array<std::int64_t, 3> own{here.steps ? static_cast<std::int64_t>(*here.steps) : -1,
                                  static_cast<std::int64_t>(here.exchanges), here.skipped};
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  FurthestSteps furthest;
  std::int64_t most = -1;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::int64_t* its = &all[own.size() * static_cast<std::size_t>(rank)];
    furthest.by_all = furthest.by_all && (rank == 0 || its[0] == most);
    furthest.exchanges = std::max(furthest.exchanges, static_cast<std::uint64_t>(its[1]));
    if (its[0] <= most) continue;
    most = its[0];
    furthest.rank = rank;
    furthest.skipped = its[2] != 0;
  }
  if (most < 0) throw PeerLost("those who had made the step in which a rank was lost are lost too");
  furthest.steps = static_cast<std::uint64_t>(most);
  return furthest;
}

}  // namespace asup::sync
