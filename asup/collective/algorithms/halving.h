// Recursive halving and doubling among a team of 2^k ranks: the words that halving_doubling and
// binary_blocks are written in.
//
// The whole is a row of pieces. Halving: in step s each place swaps with the one at distance 2^s;
// it keeps the lower half of what it holds where bit s of its place is 0, else the upper half,
// gives the other half away, and adds what it gets. Doubling takes the same way back. Values only;
// safe from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "asup/collective/algorithms/team.h"
#include "asup/collective/plan/plan.h"

namespace asup::collective {

// Where `pieces` even pieces of `whole` begin, and where the last one ends.
std::vector<std::size_t> edges_of(Cut whole, int pieces);

class Halving {
 public:
  // Pieces [begin, end).
  struct Segment {
    int begin, end;
  };

  // `edges`: of the pieces, which are a multiple of the team's size.
  Halving(Team team, std::vector<std::size_t> edges);

  int steps() const { return steps_; }
  AreaRange range(Area area, Segment segment) const {
    return {area, edges_[segment.begin], edges_[segment.end]};
  }
  // What this place holds at the end of halving.
  Segment own() const { return held(steps_); }

  // `source`: where the terms are before the first step; sums are in the output.
  void reduce(Area source, bool finish, Lane& lane) const;
  void gather(Lane& lane) const;

  // Which of 2^steps places ends with the segment that holds `piece` of `pieces`.
  static int place_of(int piece, int pieces, int steps);

 private:
  Segment held(int steps) const;     // after so many steps
  Segment sibling(int steps) const;  // what the partner of the last of them holds then
  int partner(int step) const { return team_.ranks[team_.place ^ (1 << step)]; }

  Team team_;
  std::vector<std::size_t> edges_;
  int steps_;
};

}  // namespace asup::collective
