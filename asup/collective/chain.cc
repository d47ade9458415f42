#include "asup/collective/chain.h"

#include <algorithm>

#include "asup/collective/build.h"

namespace asup::collective {
namespace {

constexpr int kLanes = 2;

// Place 0 is the root; each place receives from the one before and sends to the one after.
struct Place {
  int index, last;
  int before, after;  // ranks

  bool first() const { return index == 0; }
  bool sends() const { return index < last; }
};

std::vector<Range> chunks_of(Cut part, std::size_t slice) {
  const std::size_t most = std::max(slice, kGrain);
  const int chunks =
      static_cast<int>(part.size() / most) + (part.size() % most != 0 || part.size() == 0);
  std::vector<Range> all;
  for (int c = 0; c < chunks; ++c) {
    const Cut chunk = cut(part.size(), chunks, c, kGrain);
    all.push_back(out(part.begin + chunk.begin, part.begin + chunk.end));
  }
  return all;
}

Lane send_all(const Place& place, const std::vector<Range>& chunks) {
  Lane lane;
  for (const Range& chunk : chunks) {
    lane.push_back({send(place.after, in(chunk.begin, chunk.end))});
  }
  return lane;
}

// Round i receives chunk i and sends chunk i - 1.
Lane pass_along(const Place& place, const std::vector<Range>& chunks) {
  Lane lane;
  for (std::size_t i = 0; i <= chunks.size(); ++i) {
    Round round;
    if (i < chunks.size()) round.push_back(recv(place.before, chunks[i]));
    if (i > 0 && place.sends()) round.push_back(send(place.after, chunks[i - 1]));
    if (!round.empty()) lane.push_back(std::move(round));
  }
  return lane;
}

}  // namespace

Plan chain_broadcast(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Place place = {around(rank, -spec.root, spec.ranks), spec.ranks - 1,
                       around(rank, -1, spec.ranks), around(rank, 1, spec.ranks)};
  const int lanes = std::min(kLanes, lanes_for(spec.count, spec));
  Plan plan;
  for (int l = 0; l < lanes; ++l) {
    const Cut part = cut(spec.count, lanes, l, kGrain);
    const std::vector<Range> chunks = chunks_of(part, spec.slice);
    Lane lane = place.first() ? send_all(place, chunks) : pass_along(place, chunks);
    if (place.first() && !spec.aliased() && part.size() > 0) {
      lane.push_back({copy(in(part.begin, part.end), out(part.begin, part.end))});
    }
    plan.lanes.push_back(std::move(lane));
  }
  return plan;
}

}  // namespace asup::collective
