#include "asup/collective/build.h"

#include <algorithm>
#include <bit>

namespace asup::collective {

int log2_ceil(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

int lanes_for(std::size_t elements, const Spec& spec) {
  const std::size_t wanted = elements / spec.slice + (elements % spec.slice != 0);
  return static_cast<int>(std::clamp<std::size_t>(wanted, 1, kMaxLanes));
}

std::vector<Range> parts_of(const std::vector<Range>& blocks, int lanes, int lane) {
  std::vector<Range> parts;
  parts.reserve(blocks.size());
  for (const Range& block : blocks) {
    const Cut part = cut(block.size(), lanes, lane, kGrain);
    parts.push_back({block.area, block.begin + part.begin, block.begin + part.end});
  }
  return parts;
}

Plan alone(const Spec& spec) {
  const std::size_t count = spec.elements(Area::output, 0);
  if (spec.aliased(0) || count == 0) return {};
  return {.lanes = {{{copy(in(0, count), out(0, count))}}}, .scratch = 0};
}

Round meet_everyone(int rank, int ranks) {
  Round round;
  // Each starts at its right neighbour, so that not everyone knocks at rank 0 first.
  for (int k = 1; k < ranks; ++k) round.push_back(send(around(rank, k, ranks), {}));
  for (int k = 1; k < ranks; ++k) round.push_back(recv(around(rank, -k, ranks), {}));
  return round;
}

}  // namespace asup::collective
