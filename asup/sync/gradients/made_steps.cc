#include "asup/sync/gradients/made_steps.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "asup/base/error.h"

namespace asup::sync {

namespace {

// What a rank tells, as it travels.
struct Told {
  std::int64_t steps, exchanges, skipped, rounds, holds;
  double kept_norm;
};

std::vector<Told> tell_all(Communicator& communicator, const MadeSteps& here) {
  Told own{here.steps ? static_cast<std::int64_t>(*here.steps) : -1,
           static_cast<std::int64_t>(here.exchanges),
           here.skipped,
           static_cast<std::int64_t>(here.rounds),
           here.holds_averages,
           here.kept_norm};
  std::vector<Told> all(static_cast<std::size_t>(communicator.size()));
  communicator
      .all_gather({&own, sizeof own, Dtype::u8}, {all.data(), sizeof own * all.size(), Dtype::u8})
      .or_throw();
  return all;
}

// Of those who have made as many steps.
std::optional<int> holder_of(const std::vector<Told>& all, std::int64_t steps) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  std::optional<int> holder;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Told& its = all[rank];
    if (its.steps != steps) continue;
    least = std::min(least, its.rounds);
    if (its.rounds > most) holder.reset();
    most = std::max(most, its.rounds);
    if (its.rounds == most && its.holds && !holder) holder = static_cast<int>(rank);
  }
  if (least == most) return std::nullopt;
  if (!holder) throw PeerLost("a rank was lost between two backward passes of one step");
  return holder;
}

}  // namespace

FurthestSteps furthest_steps(Communicator& communicator, const MadeSteps& here) {
  const std::vector<Told> all = tell_all(communicator, here);
  const auto furthest = std::ranges::max_element(all, {}, &Told::steps);
  if (furthest->steps < 0)
    throw PeerLost("those who had made the step in which a rank was lost are lost too");
  std::int64_t least = furthest->steps;
  double norms = 0;
  for (const Told& each : all) {
    if (each.steps >= 0) least = std::min(least, each.steps);
    norms += each.kept_norm;
  }
  return {.steps = static_cast<std::uint64_t>(furthest->steps),
          .rank = static_cast<int>(furthest - all.begin()),
          .by_all = std::ranges::all_of(
              all, [&](const Told& each) { return each.steps == furthest->steps; }),
          .least = static_cast<std::uint64_t>(least),
          .skipped = furthest->skipped != 0,
          .exchanges =
              static_cast<std::uint64_t>(std::ranges::max(all, {}, &Told::exchanges).exchanges),
          .kept_norm = norms / static_cast<double>(all.size()),
          .holder = holder_of(all, furthest->steps)};
}

}  // namespace asup::sync
