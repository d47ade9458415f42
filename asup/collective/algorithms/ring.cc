#include "asup/collective/algorithms/ring.h"

#include <algorithm>

#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// One lane's ring, as `rank` sees it. Block b is blocks[b]; block indices go round the circle too.
struct Ring {
  int rank;
  int ranks;
  std::vector<AreaRange> blocks;

  int next() const { return around(rank, 1, ranks); }
  int previous() const { return around(rank, -1, ranks); }
  AreaRange block(Area area, int index) const {
    const AreaRange& b = blocks[around(index, 0, ranks)];
    return {area, b.begin, b.end};
  }
};

// Cuts every block into pieces and lets `write(ring, lane)` say what is done with each.
template <typename Write>
Plan in_ring_lanes(int rank, const Spec& spec, const std::vector<AreaRange>& blocks, Write write) {
  std::size_t longest = 0;
  for (const AreaRange& block : blocks) longest = std::max(longest, block.size());
  const int pieces = pieces_for(longest, spec);
  return by_pieces(pieces, [&](int piece, Lane& lane) {
    write(Ring{rank, spec.ranks, parts_of(blocks, pieces, piece)}, lane);
  });
}

// A partial sum of block b starts at rank b, and grows by one contribution at each rank it passes.
// After n - 1 rounds each rank has the whole sum of one block: rank r that of block r + 1.
void reduce_along(const Ring& ring, Lane& lane) {
  for (int s = 0; s < ring.ranks - 1; ++s) {
    const int leaving = ring.rank - s, coming = leaving - 1;
    lane.push_back({
        send(ring.next(), ring.block(s == 0 ? Area::input : Area::output, leaving)),
        recv_reduce(ring.previous(), ring.block(Area::input, coming),
                    ring.block(Area::output, coming), /*finish=*/s == ring.ranks - 2),
    });
  }
}

// Whole blocks go round once more. needs: the output holds block `own` already
void gather_along(const Ring& ring, int own, Lane& lane) {
  for (int s = 0; s < ring.ranks - 1; ++s) {
    lane.push_back({
        send(ring.next(), ring.block(Area::output, own - s)),
        recv(ring.previous(), ring.block(Area::output, own - s - 1)),
    });
  }
}

// As reduce_along, one block further back, so that the sum of block r ends at rank r. Sums under
// way live in scratch: one half is sent while the other fills.
void scatter_along(const Ring& ring, AreaRange result, std::size_t first_half, std::size_t half,
                   Lane& lane) {
  AreaRange partial = ring.block(Area::input, ring.rank - 1);  // the first to leave
  for (int s = 0; s < ring.ranks - 1; ++s) {
    const bool last = s == ring.ranks - 2;
    const AreaRange own = ring.block(Area::input, ring.rank - s - 2);
    const std::size_t at = first_half + (s % 2) * half;
    const AreaRange sum = last ? result : scratch(at, at + own.size());
    lane.push_back({send(ring.next(), partial), recv_reduce(ring.previous(), own, sum, last)});
    partial = sum;
  }
}

std::vector<AreaRange> even_blocks(const Spec& spec) {
  std::vector<AreaRange> blocks;
  for (int b = 0; b < spec.ranks; ++b) {
    const Cut part = cut(spec.count, spec.ranks, b, kGrain);
    blocks.push_back(out(part.begin, part.end));
  }
  return blocks;
}

}  // namespace

Plan ring_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  return in_ring_lanes(rank, spec, even_blocks(spec), [](const Ring& ring, Lane& lane) {
    reduce_along(ring, lane);
    gather_along(ring, ring.rank + 1, lane);
  });
}

Plan ring_reduce_scatter(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> blocks = spec.blocks(Area::input);
  const std::size_t halves = std::min(spec.ranks - 2, 2);
  std::size_t used = 0;
  Plan plan = in_ring_lanes(rank, spec, blocks, [&](const Ring& ring, Lane& lane) {
    std::size_t half = 0;
    for (const AreaRange& block : ring.blocks) half = std::max(half, block.size());
    const AreaRange own = ring.block(Area::input, rank);
    const std::size_t shift = blocks[rank].begin;  // the output holds this rank's block alone
    scatter_along(ring, out(own.begin - shift, own.end - shift), used, half, lane);
    used += halves * half;
  });
  plan.scratch = used;
  return plan;
}

Plan ring_all_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const std::vector<AreaRange> blocks = spec.blocks(Area::output);
  return in_ring_lanes(rank, spec, blocks, [&](const Ring& ring, Lane& lane) {
    const AreaRange own = ring.block(Area::output, rank);
    const std::size_t shift = blocks[rank].begin;  // the input holds this rank's block alone
    if (own.size() > 0) lane.push_back({copy(in(own.begin - shift, own.end - shift), own)});
    gather_along(ring, rank, lane);
  });
}

}  // namespace asup::collective
