#include "asup/collective/bruck.h"

#include <algorithm>

#include "asup/collective/build.h"

namespace asup::collective {
namespace {

// The output's ranges that hold `many` blocks from `first` on, round the circle: two where they go
// over the end.
std::vector<Range> runs_of(const std::vector<Range>& blocks, int first, int many) {
  const int ranks = static_cast<int>(blocks.size());
  const int straight = std::min(many, ranks - first);
  std::vector<Range> runs = {out(blocks[first].begin, blocks[first + straight - 1].end)};
  if (straight < many) runs.push_back(out(0, blocks[many - straight - 1].end));
  return runs;
}

}  // namespace

Plan bruck_all_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<Range> blocks = spec.blocks(Area::output);
  Lane lane;
  if (blocks[rank].size() > 0) lane.push_back({copy(in(0, blocks[rank].size()), blocks[rank])});
  for (int held = 1; held < spec.ranks; held *= 2) {
    const int many = std::min(held, spec.ranks - held);
    const int before = around(rank, -held, spec.ranks), after = around(rank, held, spec.ranks);
    Round round;
    for (const Range& run : runs_of(blocks, rank, many)) round.push_back(send(before, run));
    for (const Range& run : runs_of(blocks, after, many)) round.push_back(recv(after, run));
    lane.push_back(std::move(round));
  }
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

}  // namespace asup::collective
