// SlowMo: local SGD with a slow momentum over the averages. Workers step on their own for k steps;
// the mean of their models is not what they go on from, but the direction of a momentum step.
//
//   x: the model that all began the round with, m: the mean of their models at its end, g: the
//   learning rate of the workers' own optimizer
//   u <- b u + (x - m) / g
//   x <- x - a g u
//
// With a = 1 and b = 0 it is local SGD. Each worker's optimizer keeps its own state.
//
// J. Wang et al., "SlowMo: improving communication-efficient distributed SGD with slow momentum",
// ICLR 2020, arXiv:1910.00643, algorithm 1.
//
// Memory: three copies of the model: x, u, and what is exchanged. See local_update_replica.h for
// what else differs from all-reduce.
#pragma once

#include "asup/sync/non_finite_setting.h"
#include "asup/sync/way.h"

namespace asup {

struct SlowMo {
  std::int64_t every = 12;     // k
  double slow_lr = 1;          // a
  double slow_momentum = 0.7;  // b
  NonFinite non_finite = NonFinite::skip;
};

const Way& way_of(const SlowMo&);

}  // namespace asup
