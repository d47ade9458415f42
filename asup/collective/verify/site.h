// Places in plans, and how the parts of the verifier report one: the first flaw found ends the
// proof by an exception, which verify() alone catches. Values only.
#pragma once

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "asup/collective/verify/verify.h"

namespace asup::collective::proof {

// A step of a rank's plan.
struct Site {
  int rank = -1, lane = -1, round = -1, step = -1;
};

inline const Step& step_at(const std::vector<Plan>& plans, const Site& site) {
  return plans[site.rank].lanes[site.lane][site.round][site.step];
}

struct Refuted {
  Flaw flaw;
};

template <typename... Args>
[[noreturn]] void refute(const Site& site, const AreaRange& range,
                         fmt::format_string<Args...> format, Args&&... args) {
  throw Refuted{{site.rank, site.lane, site.round, site.step, range,
                 fmt::format(format, std::forward<Args>(args)...)}};
}

// Calls visit(Site, Round) for each round of one rank's lane; the site's step is 0.
template <typename Visit>
void for_each_round(const Plan& plan, int rank, int lane, Visit visit) {
  if (lane >= static_cast<int>(plan.lanes.size())) return;
  const Lane& rounds = plan.lanes[lane];
  for (int r = 0; r < static_cast<int>(rounds.size()); ++r) {
    visit(Site{rank, lane, r, 0}, rounds[r]);
  }
}

// Calls visit(Site, Step) for each step of one rank's lane.
template <typename Visit>
void for_each_step(const Plan& plan, int rank, int lane, Visit visit) {
  for_each_round(plan, rank, lane, [&](Site site, const Round& round) {
    for (; site.step < static_cast<int>(round.size()); ++site.step) visit(site, round[site.step]);
  });
}

// Ranks may have different numbers of lanes: those a rank lacks are empty.
int lanes_of(const std::vector<Plan>& plans);

// Whether any step reads or writes another rank's memory.
bool any_reaches_peer(const std::vector<Plan>& plans);

}  // namespace asup::collective::proof
