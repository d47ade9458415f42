// Nesterov's accelerated gradient. Y. Nesterov, "A method of solving a convex programming problem
// with convergence rate O(1/k²)", Soviet Mathematics Doklady 27 (1983); as torch::optim::SGD writes
// it, after I. Sutskever et al., "On the importance of initialization and momentum in deep
// learning", ICML 2013, equations 3 and 4, with w where the gradient is taken.
//
//   g ← g + weight_decay · w
//   v ← momentum · v + g
//   w ← w − lr · (g + momentum · v)
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Nesterov {
 public:
  static constexpr std::size_t kSlots = 1;  // v

  Nesterov(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr)),
        momentum_(as_float(rule.momentum)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    state[0] = momentum_ * state[0] + g;
    w -= lr_ * (g + momentum_ * state[0]);
  }

 private:
  float lr_, momentum_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
