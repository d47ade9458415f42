#include "asup/collective/algorithms/recursive_doubling.h"

#include "asup/collective/algorithms/fold.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// What is being sent cannot be written, so sums land in the output and in scratch by turns, the
// last one in the output. `step` -1 is what comes before the first swap.
AreaRange landing(const Fold& fold, int step, Cut part) {
  return (fold.steps() - 1 - step) % 2 == 0 ? out(part) : scratch(part);
}

Lane swap_sums(const Fold& fold, Cut part, bool aliased) {
  Lane lane;
  AreaRange sum = in(part);
  const AreaRange start = landing(fold, -1, part);
  if (fold.paired()) {
    lane.push_back({recv_reduce(fold.partner(), sum, start, false)});
    sum = start;
  } else if (aliased && start.area == Area::scratch) {  // the first sum lands on the input
    if (part.size() > 0) lane.push_back({copy(sum, start)});
    sum = start;
  }
  for (int step = 0; step < fold.steps(); ++step) {
    const int partner = fold.rank_at(fold.place() ^ (1 << step));
    const AreaRange next = landing(fold, step, part);
    const bool last = step == fold.steps() - 1;
    lane.push_back({send(partner, sum), recv_reduce(partner, sum, next, last)});
    sum = next;
  }
  if (fold.paired()) lane.push_back({send(fold.partner(), sum)});
  return lane;
}

}  // namespace

Plan recursive_doubling_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Fold fold(rank, spec.ranks);
  Plan plan = in_lanes(spec, spec.count, [&](Cut part) -> Lane {
    if (!fold.surplus()) return swap_sums(fold, part, spec.aliased());
    return {{send(fold.partner(), in(part))}, {recv(fold.partner(), out(part))}};
  });
  const bool straight_to_output = fold.steps() == 1 && !fold.paired() && !spec.aliased();
  if (!fold.surplus() && !straight_to_output) plan.scratch = spec.count;
  return plan;
}

}  // namespace asup::collective
