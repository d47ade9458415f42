// Gradient descent with momentum. B. Polyak, "Some methods of speeding up the convergence of
// iteration methods", USSR Computational Mathematics and Mathematical Physics 4 (1964),
// doi:10.1016/0041-5553(64)90137-5; with the learning rate outside the sum and with dampening, as
// torch::optim::SGD has it.
//
//   g ← g + weight_decay · w
//   v ← momentum · v + (1 − dampening) · g, at the first update v ← g
//   w ← w − lr · v
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Momentum {
 public:
  static constexpr std::size_t kSlots = 1;  // v

  Momentum(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr)),
        momentum_(as_float(rule.momentum)),
        gain_(step.updates == 1 ? 1.0f : as_float(1 - rule.dampening)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    state[0] = momentum_ * state[0] + gain_ * g;
    w -= lr_ * state[0];
  }

 private:
  float lr_, momentum_, gain_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
