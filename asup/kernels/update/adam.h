// Adam. D. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR 2015,
// arXiv:1412.6980, algorithm 1; amsgrad: S. Reddi, S. Kale and S. Kumar, "On the convergence of
// Adam and beyond", ICLR 2018, arXiv:1904.09237, algorithm 2, with the corrections of algorithm 1
// as torch::optim::Adam has it.
//
//   g ← g + weight_decay · w
//   m ← beta1 · m + (1 − beta1) · g
//   s ← beta2 · s + (1 − beta2) · g²
//   r = s, or with amsgrad r ← max(r, s)
//   w ← w − lr · m/(1 − beta1^t) / (√(r/(1 − beta2^t)) + eps)     at update t
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

template <bool kAmsgrad>
class Adam {
 public:
  static constexpr std::size_t kSlots = 2 + kAmsgrad;  // m, s, r

  Adam(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr / missing_weight(rule.beta1, step.updates))),
        beta1_(as_float(rule.beta1)),
        beta2_(as_float(rule.beta2)),
        gain1_(as_float(1 - rule.beta1)),
        gain2_(as_float(1 - rule.beta2)),
        scale_(as_float(1 / __builtin_sqrt(missing_weight(rule.beta2, step.updates)))),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const { descend(g + weight_decay_ * w, w, state); }

  // Without the decay.
  void descend(Floats g, Floats& w, Floats* state) const {
    state[0] = beta1_ * state[0] + gain1_ * g;
    state[1] = beta2_ * state[1] + gain2_ * g * g;
    if constexpr (kAmsgrad) state[2] = Max::apply<float>(state[2], state[1]);
    w -= lr_ * state[0] / (square_root(state[1 + kAmsgrad]) * scale_ + eps_);
  }

 private:
  float lr_, beta1_, beta2_, gain1_, gain2_, scale_, eps_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
