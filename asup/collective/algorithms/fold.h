// Folding: how algorithms for 2^k ranks serve any number of them.
//
// With p the largest power of two that n ranks hold, the first 2(n - p) ranks pair up. The even one
// of a pair is surplus: it hands its part to the odd one before, and gets the result from it
// afterwards. The other p ranks are the core.
//
// R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
// MPICH. International Journal of High Performance Computing Applications 19(1), 2005,
// doi:10.1177/1094342005051521. Values only; safe from any thread.
#pragma once

#include <bit>

#include "asup/collective/algorithms/team.h"

namespace asup::collective {

class Fold {
 public:
  Fold(int rank, int ranks)
      : rank_(rank),
        steps_(std::bit_width(static_cast<unsigned>(ranks)) - 1),
        pairs_(ranks - (1 << steps_)) {}

  int core() const { return 1 << steps_; }
  int steps() const { return steps_; }  // log2 of core()

  bool paired() const { return rank_ < 2 * pairs_; }
  bool surplus() const { return paired() && rank_ % 2 == 0; }
  int partner() const { return rank_ ^ 1; }  // needs: paired()

  // Of the core, by place. needs: not surplus()
  int place() const { return paired() ? rank_ / 2 : rank_ - pairs_; }
  int rank_at(int place) const { return place < pairs_ ? 2 * place + 1 : place + pairs_; }
  // The first of the ranks that `place` stands for; core() gives one past the last rank.
  int first_at(int place) const { return place < pairs_ ? 2 * place : place + pairs_; }

  Team team() const {
    Team team{place(), {}};
    for (int p = 0; p < core(); ++p) team.ranks.push_back(rank_at(p));
    return team;
  }

 private:
  int rank_;
  int steps_;
  int pairs_;
};

}  // namespace asup::collective
