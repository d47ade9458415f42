#include "asup/collective/algorithms/chain.h"

#include <algorithm>

#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

constexpr int kLanes = 2;

// Position 0 is the root; each position receives from the one before and sends to the one after.
struct ChainPosition {
  int index, last;
  int before, after;  // ranks

  bool first() const { return index == 0; }
  bool sends() const { return index < last; }
};

std::vector<AreaRange> chunks_of(Cut part, std::size_t slice) {
  const std::size_t most = std::max(slice, kGrain);
  const int chunks =
      static_cast<int>(part.size() / most) + (part.size() % most != 0 || part.size() == 0);
  std::vector<AreaRange> all;
  for (int c = 0; c < chunks; ++c) {
    const Cut chunk = cut(part.size(), chunks, c, kGrain);
    all.push_back(out(part.begin + chunk.begin, part.begin + chunk.end));
  }
  return all;
}

Lane send_all(int to, const std::vector<AreaRange>& chunks) {
  Lane lane;
  for (const AreaRange& chunk : chunks) lane.push_back({send(to, in(chunk.begin, chunk.end))});
  return lane;
}

// Round i receives chunk i and sends chunk i - 1.
Lane pass_along(const ChainPosition& position, const std::vector<AreaRange>& chunks) {
  Lane lane;
  for (std::size_t i = 0; i <= chunks.size(); ++i) {
    Round round;
    if (i < chunks.size()) round.push_back(recv(position.before, chunks[i]));
    if (i > 0 && position.sends()) round.push_back(send(position.after, chunks[i - 1]));
    if (!round.empty()) lane.push_back(std::move(round));
  }
  return lane;
}

Lane add_all(const ChainPosition& position, const std::vector<AreaRange>& chunks) {
  Lane lane;
  for (const AreaRange& chunk : chunks) {
    lane.push_back({recv_reduce(position.after, in(chunk.begin, chunk.end), chunk, true)});
  }
  return lane;
}

// Round i receives and adds chunk i and sends chunk i - 1. Two chunks of `longest` elements lie in
// scratch from `first` on.
Lane add_along(const ChainPosition& position, const std::vector<AreaRange>& chunks,
               std::size_t first, std::size_t longest) {
  auto sum_of = [&](std::size_t i) {
    const std::size_t begin = first + i % 2 * longest;
    return scratch(begin, begin + chunks[i].size());
  };
  Lane lane;
  for (std::size_t i = 0; i <= chunks.size(); ++i) {
    Round round;
    if (i < chunks.size()) {
      round.push_back(
          recv_reduce(position.after, in(chunks[i].begin, chunks[i].end), sum_of(i), false));
    }
    if (i > 0) round.push_back(send(position.before, sum_of(i - 1)));
    lane.push_back(std::move(round));
  }
  return lane;
}

ChainPosition position_of(int rank, const Spec& spec) {
  return {around(rank, -spec.root, spec.ranks), spec.ranks - 1, around(rank, -1, spec.ranks),
          around(rank, 1, spec.ranks)};
}

}  // namespace

Plan chain_broadcast(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const ChainPosition position = position_of(rank, spec);
  const int lanes = std::min(kLanes, pieces_for(spec.count, spec));
  Plan plan;
  for (int l = 0; l < lanes; ++l) {
    const Cut part = cut(spec.count, lanes, l, kGrain);
    const std::vector<AreaRange> chunks = chunks_of(part, spec.slice);
    Lane lane = position.first() ? send_all(position.after, chunks) : pass_along(position, chunks);
    if (position.first() && !spec.aliased() && part.size() > 0) {
      lane.push_back({copy(in(part.begin, part.end), out(part.begin, part.end))});
    }
    plan.lanes.push_back(std::move(lane));
  }
  return plan;
}

// The way of a broadcast backwards: from the last position to the root.
Plan chain_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const ChainPosition position = position_of(rank, spec);
  const int lanes = std::min(kLanes, pieces_for(spec.count, spec));
  Plan plan;
  for (int l = 0; l < lanes; ++l) {
    const std::vector<AreaRange> chunks = chunks_of(cut(spec.count, lanes, l, kGrain), spec.slice);
    if (position.first()) {
      plan.lanes.push_back(add_all(position, chunks));
    } else if (!position.sends()) {
      plan.lanes.push_back(send_all(position.before, chunks));
    } else {
      const std::size_t longest = chunks[0].size();
      plan.lanes.push_back(add_along(position, chunks, plan.scratch, longest));
      plan.scratch += 2 * longest;
    }
  }
  return plan;
}

}  // namespace asup::collective
