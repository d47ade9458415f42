// RMSProp. T. Tieleman and G. Hinton, "Neural networks for machine learning", lecture 6.5 (2012);
// centered: A. Graves, "Generating sequences with recurrent neural networks" (2013),
// arXiv:1308.0850, equations 38 to 41. As torch::optim::RMSprop has it: averages begin at 0 and are
// not corrected for that, and eps is outside the root.
//
//   g ← g + weight_decay · w
//   s ← alpha · s + (1 − alpha) · g²
//   a ← alpha · a + (1 − alpha) · g           if centered
//   d = √s + eps, or √(s − a²) + eps          if centered
//   v ← momentum · v + g / d;  w ← w − lr · v if there is momentum, else
//   w ← w − lr · g / d
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

template <bool kCentered, bool kMomentum>
class RmsProp {
 public:
  static constexpr std::size_t kSlots = 1 + kCentered + kMomentum;  // s, a, v

  RmsProp(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr)),
        alpha_(as_float(rule.alpha)),
        gain_(as_float(1 - rule.alpha)),
        eps_(as_float(rule.eps)),
        momentum_(as_float(rule.momentum)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    Floats variance = state[0] = alpha_ * state[0] + gain_ * g * g;
    if constexpr (kCentered) {
      Floats& average = state[1];
      average = alpha_ * average + gain_ * g;
      variance -= average * average;
    }
    const Floats divisor = square_root(variance) + eps_;
    if constexpr (kMomentum) {
      Floats& v = state[1 + kCentered];
      v = momentum_ * v + g / divisor;
      w -= lr_ * v;
    } else {
      w -= lr_ * g / divisor;
    }
  }

 private:
  float lr_, alpha_, gain_, eps_, momentum_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
