#include "asup/collective/algorithms/halving_doubling.h"

#include "asup/collective/algorithms/fold.h"
#include "asup/collective/algorithms/halving.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

Lane reduce_and_gather(const Fold& fold, Cut part) {
  Lane lane;
  if (fold.paired()) lane.push_back({recv_reduce(fold.partner(), in(part), out(part), false)});
  const Halving halving(fold.team(), edges_of(part, fold.core()));
  halving.reduce(fold.paired() ? Area::output : Area::input, /*finish=*/true, lane);
  halving.gather(lane);
  if (fold.paired()) lane.push_back({send(fold.partner(), out(part))});
  return lane;
}

// The blocks that a run of the core's places stand for, which lie together.
class CoreBlocks {
 public:
  CoreBlocks(const Fold& fold, const Spec& spec) : fold_(fold), blocks_(spec.blocks(Area::input)) {}

  Cut of(int first_place, int places) const {
    const int first = fold_.first_at(first_place), last = fold_.first_at(first_place + places) - 1;
    return {blocks_[first].begin, blocks_[last].end};
  }
  Cut of_rank(int rank) const { return {blocks_[rank].begin, blocks_[rank].end}; }

 private:
  const Fold& fold_;
  std::vector<AreaRange> blocks_;
};

Cut shifted(Cut part, std::size_t base) { return {part.begin - base, part.end - base}; }

// From the furthest partner to the nearest, so that each place ends with its own blocks. Sums under
// way lie in scratch, whose first element is `base` of the whole.
Plan scatter_core(const Fold& fold, const CoreBlocks& blocks, const Spec& spec) {
  Plan plan;
  Lane lane;
  std::size_t base = 0;
  if (fold.paired()) {
    plan.scratch = spec.count;
    lane.push_back({recv_reduce(fold.partner(), in(0, spec.count), scratch(0, spec.count), false)});
  }
  for (int half = fold.core() / 2; half >= 1; half /= 2) {
    const int mine = fold.place() / half * half;  // the first place of the half that is kept
    const int partner = fold.rank_at(fold.place() ^ half);
    const Cut kept = blocks.of(mine, half), given = blocks.of(mine ^ half, half);
    const bool first = half == fold.core() / 2 && !fold.paired(), last = half == 1;
    auto from = [&](Cut part) { return first ? in(part) : scratch(shifted(part, base)); };
    const AreaRange leaving = from(given), own = from(kept);
    if (first) base = kept.begin;
    if (first && !last) plan.scratch = kept.size();
    const bool done = last && !fold.paired();
    const AreaRange sum = done ? out(0, kept.size()) : scratch(shifted(kept, base));
    lane.push_back({send(partner, leaving), recv_reduce(partner, own, sum, last)});
  }
  plan.lanes = {std::move(lane)};
  return plan;
}

}  // namespace

Plan halving_doubling_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Fold fold(rank, spec.ranks);
  return in_lanes(spec, spec.count / 2, [&](Cut part) -> Lane {
    if (!fold.surplus()) return reduce_and_gather(fold, part);
    return {{send(fold.partner(), in(part))}, {recv(fold.partner(), out(part))}};
  });
}

Plan halving_reduce_scatter(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Fold fold(rank, spec.ranks);
  const CoreBlocks blocks(fold, spec);
  const Cut own = blocks.of_rank(rank);
  if (fold.surplus()) {
    return {.lanes = {{{send(fold.partner(), in(0, spec.count))},
                       {recv(fold.partner(), out(0, own.size()))}}},
            .scratch = 0};
  }
  Plan plan = scatter_core(fold, blocks, spec);
  if (!fold.paired()) return plan;
  Lane& lane = plan.lanes[0];
  lane.push_back({send(fold.partner(), scratch(blocks.of_rank(fold.partner())))});
  if (own.size() > 0) lane.push_back({copy(scratch(own), out(0, own.size()))});
  return plan;
}

Plan doubling_all_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Fold fold(rank, spec.ranks);
  const CoreBlocks blocks(fold, spec);
  const Cut own = blocks.of_rank(rank);
  if (fold.surplus()) {
    return {.lanes = {{{send(fold.partner(), in(0, own.size()))},
                       {recv(fold.partner(), out(0, spec.count))}}},
            .scratch = 0};
  }
  Lane lane;
  if (own.size() > 0) lane.push_back({copy(in(0, own.size()), out(own))});
  if (fold.paired()) {
    lane.push_back({recv(fold.partner(), out(blocks.of_rank(fold.partner())))});
  }
  for (int held = 1; held < fold.core(); held *= 2) {
    const int mine = fold.place() / held * held;
    const int partner = fold.rank_at(fold.place() ^ held);
    lane.push_back({send(partner, out(blocks.of(mine, held))),
                    recv(partner, out(blocks.of(mine ^ held, held)))});
  }
  if (fold.paired()) lane.push_back({send(fold.partner(), out(0, spec.count))});
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

}  // namespace asup::collective
