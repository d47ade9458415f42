// The words in which algorithms write plans. Pure functions; safe from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "asup/collective/plan/plan.h"

namespace asup::collective {

inline Step send(int peer, AreaRange src) { return {Step::Op::send, peer, src, {}, false}; }
inline Step recv(int peer, AreaRange dst) { return {Step::Op::recv, peer, {}, dst, false}; }
inline Step recv_reduce(int peer, AreaRange src, AreaRange dst, bool finish) {
  return {Step::Op::recv_reduce, peer, src, dst, finish};
}
inline Step copy(AreaRange src, AreaRange dst) { return {Step::Op::copy, -1, src, dst, false}; }
inline Step reduce_parts(AreaRange src, AreaRange own, AreaRange dst) {
  return {Step::Op::reduce_parts, -1, src, dst, true, own};
}
inline Step peer_reduce(AreaRange src, AreaRange own, AreaRange dst) {
  return {Step::Op::peer_reduce, -1, src, dst, true, own};
}
inline Step peer_reduce(AreaRange src, AreaRange dst) { return peer_reduce(src, src, dst); }
inline Step peer_write(int peer, AreaRange src, AreaRange dst) {
  return {Step::Op::peer_write, peer, src, dst, false};
}
inline Step peer_read(int peer, AreaRange src, AreaRange dst) {
  return {Step::Op::peer_read, peer, src, dst, false};
}

inline AreaRange in(Cut part) { return in(part.begin, part.end); }
inline AreaRange out(Cut part) { return out(part.begin, part.end); }
inline AreaRange scratch(Cut part) { return scratch(part.begin, part.end); }

// The rank `steps` places after `rank` on the circle of `ranks`; before it where `steps` is
// negative.
inline int around(int rank, int steps, int ranks) {
  return ((rank + steps) % ranks + ranks) % ranks;
}

// The smallest k with 2^k >= ranks.
int log2_ceil(int ranks);

// Cuts between ranks or lanes fall on multiples of this many elements: at least a cache line of any
// dtype, so that two never write to one line.
inline constexpr std::size_t kGrain = 64;

// More lanes than this only add messages: a few already keep a link and the reduction busy at once,
// and what they have under way stays in the cache.
inline constexpr int kMaxLanes = 4;

// How many pieces bring messages of `elements` down to about spec.slice each. A lane does one piece
// after the other, so that what it has reduced is sent on while it is in the cache.
int pieces_for(std::size_t elements, const Spec& spec);

// Each block's part `piece` of `pieces`.
std::vector<AreaRange> parts_of(const std::vector<AreaRange>& blocks, int pieces, int piece);

// Lanes that do pieces by turns; `write(piece, lane)` adds what there is to do for a piece.
template <typename Write>
Plan by_pieces(int pieces, Write write) {
  Plan plan;
  plan.lanes.resize(static_cast<std::size_t>(std::min(pieces, kMaxLanes)));
  for (int piece = 0; piece < pieces; ++piece)
    write(piece, plan.lanes[static_cast<std::size_t>(piece) % plan.lanes.size()]);
  return plan;
}

// The same with pieces of the whole, where its messages have `longest` elements; `write(Cut)` says
// what there is to do for one.
template <typename Write>
Plan in_lanes(const Spec& spec, std::size_t longest, Write write) {
  const int pieces = pieces_for(longest, spec);
  return by_pieces(pieces, [&](int piece, Lane& lane) {
    for (Round& round : write(cut(spec.count, pieces, piece, kGrain)))
      lane.push_back(std::move(round));
  });
}

// A group of one: its input is the result.
Plan alone(const Spec& spec);

// Tells every other rank that this one has come so far, and waits for the same from each.
Round signal_everyone(int rank, int ranks);

}  // namespace asup::collective
