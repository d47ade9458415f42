// ASU-P's rule: momentum over gradients that are scaled, one by one, by their own recent size.
//
//   g ← g + weight_decay · w
//   s ← alpha · s + (1 − alpha) · g²
//   v ← momentum · v + lr · g / √(s/(1 − alpha^t) + eps)     at update t
//   w ← w − v
//
// s begins at 0 and is corrected for it as in Adam (adam.h), so that it is the weighted mean of the
// squared gradients that there were. Without the correction the first step would be
// 1/√(1 − alpha) times too long (10 times where alpha is 0.99), and momentum would repeat it; a
// first s of g² would let one batch decide for 1/(1 − alpha) updates. The rate is inside the
// momentum, so pushes of workers with different rates add up as they came. eps is inside the root:
// a parameter whose gradients are below √eps moves in proportion to them.
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Asup {
 public:
  static constexpr std::size_t kSlots = 2;  // v, s

  Asup(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr)),
        momentum_(as_float(rule.momentum)),
        alpha_(as_float(rule.alpha)),
        gain_(as_float(1 - rule.alpha)),
        scale_(as_float(1 / missing_weight(rule.alpha, step.updates))),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    state[1] = alpha_ * state[1] + gain_ * g * g;
    state[0] = momentum_ * state[0] + lr_ * g / square_root(state[1] * scale_ + eps_);
    w -= state[0];
  }

 private:
  float lr_, momentum_, alpha_, gain_, scale_, eps_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
