#include "asup/collective/plan/build.h"

#include <algorithm>
#include <bit>

namespace asup::collective {
namespace {

// Of all ranks together: plans of huge buffers must stay small enough to be priced.
constexpr int kMostPieces = 1024;

}  // namespace

int log2_ceil(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

int pieces_for(std::size_t elements, const Spec& spec) {
  const std::size_t wanted = elements / spec.slice + (elements % spec.slice != 0);
  const int most = std::max(kMaxLanes, kMostPieces / spec.ranks);
  return static_cast<int>(std::clamp<std::size_t>(wanted, 1, static_cast<std::size_t>(most)));
}

std::vector<AreaRange> parts_of(const std::vector<AreaRange>& blocks, int pieces, int piece) {
  std::vector<AreaRange> parts;
  parts.reserve(blocks.size());
  for (const AreaRange& block : blocks) {
    const Cut part = cut(block.size(), pieces, piece, kGrain);
    parts.push_back({block.area, block.begin + part.begin, block.begin + part.end});
  }
  return parts;
}

Plan alone(const Spec& spec) {
  const std::size_t count = spec.elements(Area::output, 0);
  if (spec.aliased(0) || count == 0) return {};
  return {.lanes = {{{copy(in(0, count), out(0, count))}}}, .scratch = 0};
}

Round signal_everyone(int rank, int ranks) {
  Round round;
  // Each starts at its right neighbour, so that not everyone knocks at rank 0 first.
  for (int k = 1; k < ranks; ++k) round.push_back(send(around(rank, k, ranks), {}));
  for (int k = 1; k < ranks; ++k) round.push_back(recv(around(rank, -k, ranks), {}));
  return round;
}

}  // namespace asup::collective
