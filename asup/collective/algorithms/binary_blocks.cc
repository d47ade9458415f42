#include "asup/collective/algorithms/binary_blocks.h"

#include <bit>

#include "asup/collective/algorithms/halving.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// Places [first, first + 2^steps) of the team.
struct Block {
  int first, steps;
  int size() const { return 1 << steps; }
};

// The largest first.
std::vector<Block> blocks_of(int places) {
  std::vector<Block> blocks;
  for (int first = 0; first < places;) {
    const int steps = std::bit_width(static_cast<unsigned>(places - first)) - 1;
    blocks.push_back({first, steps});
    first += 1 << steps;
  }
  return blocks;
}

std::size_t block_of(const std::vector<Block>& blocks, int place) {
  std::size_t b = 0;
  while (place >= blocks[b].first + blocks[b].size()) ++b;
  return b;
}

Team team_of(const Block& block, const Team& all) {
  const auto first = all.ranks.begin() + block.first;
  return {all.place - block.first, {first, first + block.size()}};
}

// One rank's view: its own block has halved, and it holds the pieces of `own`.
class Ladder {
 public:
  Ladder(const Team& team, const Halving& halving, int pieces)
      : team_(team), halving_(halving), pieces_(pieces) {}

  // The one rank of a smaller block that holds this rank's pieces, among others.
  int below(const Block& smaller) const { return holder(smaller, halving_.own().begin); }

  // Calls visit(rank, segment) for each rank of a larger block that holds some of these pieces.
  template <typename Visit>
  void for_each_above(const Block& larger, Visit visit) const {
    const Halving::Segment own = halving_.own();
    const int each = pieces_ / larger.size();
    for (int piece = own.begin; piece < own.end; piece += each) {
      visit(holder(larger, piece), Halving::Segment{piece, piece + each});
    }
  }

 private:
  int holder(const Block& block, int piece) const {
    return team_.ranks[block.first + Halving::place_of(piece, pieces_, block.steps)];
  }

  const Team& team_;
  const Halving& halving_;
  const int pieces_;
};

}  // namespace

void all_reduce_in_binary_blocks(const Team& team, Cut part, Area source, Lane& lane) {
  const std::vector<Block> blocks = blocks_of(team.size());
  const std::size_t b = block_of(blocks, team.place);
  const Block* larger = b > 0 ? &blocks[b - 1] : nullptr;
  const Block* smaller = b + 1 < blocks.size() ? &blocks[b + 1] : nullptr;
  const int pieces = blocks[0].size();
  const Halving halving(team_of(blocks[b], team), edges_of(part, pieces));
  const Ladder ladder(team, halving, pieces);
  const AreaRange own = halving.range(Area::output, halving.own());

  halving.reduce(source, /*finish=*/!larger && !smaller, lane);
  if (smaller) lane.push_back({recv_reduce(ladder.below(*smaller), own, own, !larger)});
  if (larger) {
    const Area sums = halving.steps() == 0 ? source : Area::output;
    Round up, down;
    ladder.for_each_above(*larger, [&](int rank, Halving::Segment segment) {
      up.push_back(send(rank, halving.range(sums, segment)));
      down.push_back(recv(rank, halving.range(Area::output, segment)));
    });
    lane.push_back(std::move(up));
    lane.push_back(std::move(down));
  }
  const std::size_t gathering = lane.size();
  halving.gather(lane);
  // The smaller block gets its pieces while this one starts to gather; a block that has a smaller
  // one has two ranks or more, and so a round to gather in.
  if (smaller) lane[gathering].push_back(send(ladder.below(*smaller), own));
}

Plan binary_blocks_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  Team everyone{rank, {}};
  for (int r = 0; r < spec.ranks; ++r) everyone.ranks.push_back(r);
  return in_lanes(spec, spec.count / 2, [&](Cut part) {
    Lane lane;
    all_reduce_in_binary_blocks(everyone, part, Area::input, lane);
    return lane;
  });
}

}  // namespace asup::collective
