// LAMB: Adam, of which each tensor moves in proportion to its norm. Y. You et al., "Large batch
// optimization for deep learning: training BERT in 76 minutes", ICLR 2020, arXiv:1904.00962,
// algorithm 2 with φ(z) = z.
//
//   m ← beta1 · m + (1 − beta1) · g
//   s ← beta2 · s + (1 − beta2) · g²
//   r = m/(1 − beta1^t) / (√(s/(1 − beta2^t)) + eps) + weight_decay · w     at update t
//   ratio = trust · ‖w‖ / ‖r‖                                               over the whole tensor
//   w ← w − lr · ratio · r
//
// The paper has no trust coefficient: it is 1. Where ‖w‖ or ‖r‖ is 0 the ratio is 1. Biases and the
// scales of norms have neither ratio nor decay (rule_of_vectors()). update.h's sums_for_ratio()
// takes the norms, and trust_ratio() makes the ratio of sums over all pieces of the tensor.
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Lamb {
 public:
  static constexpr std::size_t kSlots = 2;  // m, s

  Lamb(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr * step.trust_ratio)),
        mean_scale_(as_float(1 / missing_weight(rule.beta1, step.updates))),
        beta1_(as_float(rule.beta1)),
        beta2_(as_float(rule.beta2)),
        gain1_(as_float(1 - rule.beta1)),
        gain2_(as_float(1 - rule.beta2)),
        scale_(as_float(1 / __builtin_sqrt(missing_weight(rule.beta2, step.updates)))),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const { w -= lr_ * measured(g, w, state); }

  // r, whose norm the ratio is made of.
  Floats measured(Floats g, Floats w, Floats* state) const {
    state[0] = beta1_ * state[0] + gain1_ * g;
    state[1] = beta2_ * state[1] + gain2_ * g * g;
    return mean_scale_ * state[0] / (square_root(state[1]) * scale_ + eps_) + weight_decay_ * w;
  }

 private:
  float lr_, mean_scale_, beta1_, beta2_, gain1_, gain2_, scale_, eps_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
