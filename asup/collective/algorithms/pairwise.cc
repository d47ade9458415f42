#include "asup/collective/algorithms/pairwise.h"

#include <algorithm>

#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

std::size_t longest_block(const Spec& spec) {
  if (spec.counts.empty()) return cut(spec.count, spec.ranks, 0).size();
  return *std::max_element(spec.counts.begin(), spec.counts.end());
}

}  // namespace

Plan pairwise_all_to_all(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> leaving = spec.leaving(rank), arriving = spec.arriving(rank);
  const int pieces = pieces_for(longest_block(spec), spec);
  return by_pieces(pieces, [&](int piece, Lane& lane) {
    const std::vector<AreaRange> from = parts_of(leaving, pieces, piece);
    const std::vector<AreaRange> to = parts_of(arriving, pieces, piece);
    if (from[rank].size() > 0) lane.push_back({copy(from[rank], to[rank])});
    for (int k = 1; k < spec.ranks; ++k) {
      const int after = around(rank, k, spec.ranks), before = around(rank, -k, spec.ranks);
      lane.push_back({send(after, from[after]), recv(before, to[before])});
    }
  });
}

}  // namespace asup::collective
