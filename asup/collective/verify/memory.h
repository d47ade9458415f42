// What every rank's memory holds during the symbolic run. One thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "asup/collective/plan/plan.h"
#include "asup/collective/verify/contributions.h"
#include "asup/collective/verify/interval_map.h"
#include "asup/collective/verify/site.h"

namespace asup::collective::proof {

// Of consecutive elements, each holding the same term over consecutive elements of the whole.
struct Value {
  Contributions::Id term = Contributions::kNothing;
  std::ptrdiff_t shift = 0;              // from an address to its element of the whole
  int lane = -1, round = -1, step = -1;  // who wrote it; -1: it was there at the start
};

// A run of values on its way from one range to another.
struct Piece {
  std::size_t begin, end;  // positions in the range
  Contributions::Id term;
  std::ptrdiff_t element;  // of the whole, that position 0 would hold
};
using Pieces = std::vector<Piece>;

class Memory {
 public:
  Memory(const Spec& spec, const std::vector<Plan>& plans, const Contributions& terms);

  // Refutes `site` where something was never written.
  void load(const Site& site, int owner, const AreaRange& range, Pieces& pieces) const;
  void store(const Site& site, int owner, const AreaRange& range, const Pieces& pieces);

  const IntervalMap<Value>& output(int rank) const { return area(rank, Area::output); }

 private:
  const IntervalMap<Value>& area(int owner, Area area) const {
    return areas_[owner * kAreas + static_cast<int>(area)];
  }

  static constexpr int kAreas = 5;
  const Spec& spec_;
  std::vector<IntervalMap<Value>> areas_;        // kAreas for each rank, in the order of Area
  std::vector<IntervalMap<Value>::Run> stored_;  // by the step under way
};

}  // namespace asup::collective::proof
