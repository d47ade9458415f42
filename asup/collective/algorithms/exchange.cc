#include "asup/collective/algorithms/exchange.h"

#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// Where the part of `peer` lies among those that `rank` gets, of `size` elements each.
AreaRange place_of(int peer, int rank, std::size_t size) {
  const std::size_t before = static_cast<std::size_t>(peer - (peer > rank)) * size;
  return scratch(before, before + size);
}

void exchange_piece(int rank, const Spec& spec, Cut piece, Lane& lane) {
  const std::size_t size = piece.size();
  Round everyone;
  // Each starts at its right neighbour, so that not everyone knocks at rank 0 first.
  for (int k = 1; k < spec.ranks; ++k)
    everyone.push_back(send(around(rank, k, spec.ranks), in(piece)));
  for (int k = 1; k < spec.ranks; ++k) {
    const int peer = around(rank, -k, spec.ranks);
    everyone.push_back(recv(peer, place_of(peer, rank, size)));
  }
  lane.push_back(std::move(everyone));
  if (size == 0) return;
  const AreaRange parts = scratch(0, static_cast<std::size_t>(spec.ranks - 1) * size);
  lane.push_back({reduce_parts(parts, in(piece), out(piece))});
}

}  // namespace

Plan exchange_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const int pieces = pieces_for(spec.count, spec);
  Lane lane;
  for (int p = 0; p < pieces; ++p)
    exchange_piece(rank, spec, cut(spec.count, pieces, p, kGrain), lane);
  const std::size_t longest = cut(spec.count, pieces, 0, kGrain).size();
  return {.lanes = {std::move(lane)},
          .scratch = static_cast<std::size_t>(spec.ranks - 1) * longest};
}

}  // namespace asup::collective
