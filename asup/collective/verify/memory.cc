#include "asup/collective/verify/memory.h"

#include "asup/collective/verify/access.h"

namespace asup::collective::proof {

Memory::Memory(const Spec& spec, const std::vector<Plan>& plans, const Contributions& terms)
    : spec_(spec) {
  const bool gathers =
      spec.collective == Collective::all_gather || spec.collective == Collective::gather;
  const std::vector<AreaRange> blocks =
      gathers ? spec.blocks(Area::output) : std::vector<AreaRange>();
  areas_.reserve(kAreas * spec.ranks);
  for (int rank = 0; rank < spec.ranks; ++rank) {
    Value own;
    own.term = terms.input(rank);
    if (gathers) own.shift = static_cast<std::ptrdiff_t>(blocks[rank].begin);
    const bool aliased = spec.aliased(rank);
    areas_.emplace_back(aliased ? 0 : spec.elements(Area::input, rank), own);
    areas_.emplace_back(spec.elements(Area::output, rank), aliased ? own : Value());
    areas_.emplace_back(plans[rank].scratch, Value());
    areas_.emplace_back(plans[rank].stage, Value());
    areas_.emplace_back(plans[rank].coded, Value());
  }
}

void Memory::load(const Site& site, int owner, const AreaRange& range, Pieces& pieces) const {
  pieces.clear();
  const AreaRange real = resolve(spec_, owner, range);
  area(owner, real.area)
      .visit(real.begin, real.end, [&](std::size_t begin, std::size_t end, const Value& value) {
        if (value.term == Contributions::kNothing) {
          refute(site, {range.area, begin, end},
                 "reads {} of rank {}, where nothing was written yet",
                 describe(AreaRange{range.area, begin, end}), owner);
        }
        pieces.push_back({begin - real.begin, end - real.begin, value.term,
                          static_cast<std::ptrdiff_t>(real.begin) + value.shift});
      });
}

void Memory::store(const Site& site, int owner, const AreaRange& range, const Pieces& pieces) {
  const AreaRange real = resolve(spec_, owner, range);
  IntervalMap<Value>& map = areas_[owner * kAreas + static_cast<int>(real.area)];
  stored_.clear();
  for (const Piece& piece : pieces) {
    stored_.push_back({real.begin + piece.begin,
                       {piece.term, piece.element - static_cast<std::ptrdiff_t>(real.begin),
                        site.lane, site.round, site.step}});
  }
  map.assign(real.begin, real.end, stored_);
}

}  // namespace asup::collective::proof
