// A part of a step: what an update does that holds only a share s of a step's samples.
//
// A step of a linear rule is an affine map M of the parameter and its velocity (w, v). A share s of
// it is the power M^s, so that n shares of 1/n with the same gradient come to exactly one step:
// taking 1/n of the learning rate instead would let the momentum decay n times.
// In doubles, once for an update; values only, safe from any thread.
#pragma once

#include "asup/kernels/rule.h"
#include "asup/kernels/update.h"

namespace asup::kernels {

//   w ← w + ww · w + wv · v + wg · g
//   v ←     vw · w + vv · v + vg · g     with w and v of before
struct LinearPower {
  double ww = 0, wv = 0, wg = 0;
  double vw = 0, vv = 1, vg = 0;
};

// Of sgd, momentum or nesterov, with weight decay. Where the map has no real power, since decay
// times the rate is above 1 and the sign of w changes in each step, it is s of the way.
LinearPower linear_power(const Rule& rule, const UpdateStep& step);

// Of v ← momentum · v + gain · u and a sum d of the velocities, by which the parameter moves:
//   d ← d + from_v · v + from_u · u
//   v ← keep · v + gain · u
struct MomentumPower {
  double keep = 1, gain = 0, from_v = 0, from_u = 0;
};
MomentumPower momentum_power(double momentum, double gain, double share);

// base^share, for base >= 0.
double power(double base, double share);

}  // namespace asup::kernels
