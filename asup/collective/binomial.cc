#include "asup/collective/binomial.h"

#include <bit>

#include "asup/collective/build.h"

namespace asup::collective {

// Places are counted from the root. The parent of a place is the place without its lowest set bit;
// its children are the place with one lower bit set.
Plan binomial_broadcast(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const int place = around(rank, -spec.root, spec.ranks);
  const bool root = place == 0;
  const Range data = out(0, spec.count);
  const Range source = root ? in(0, spec.count) : data;

  Lane lane;
  if (!root) {
    const int parent = place & (place - 1);
    lane.push_back({recv(around(spec.root, parent, spec.ranks), data)});
  }
  Round children;
  const int lowest = root ? log2_ceil(spec.ranks) : std::countr_zero(static_cast<unsigned>(place));
  // The child with the most descendants first: they wait longest.
  for (int bit = lowest - 1; bit >= 0; --bit) {
    const int child = place + (1 << bit);
    if (child < spec.ranks) {
      children.push_back(send(around(spec.root, child, spec.ranks), source));
    }
  }
  if (!children.empty()) lane.push_back(std::move(children));
  if (root && !spec.aliased() && spec.count > 0) lane.push_back({copy(source, data)});
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

}  // namespace asup::collective
