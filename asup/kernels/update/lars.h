// LARS: each tensor has a learning rate in proportion to its norm. Y. You, I. Gitman and
// B. Ginsburg, "Large batch training of convolutional networks" (2017), arXiv:1708.03888,
// algorithm 1.
//
//   ratio = trust · ‖w‖ / (‖g‖ + weight_decay · ‖w‖)     over the whole tensor
//   v ← momentum · v + lr · ratio · (g + weight_decay · w)
//   w ← w − v
//
// As in the paper the rates are inside the momentum: a step that was taken at a high rate goes on
// at that rate. Where ‖w‖ or ‖g‖ is 0 the ratio is 1, as in the implementations that people use: by
// the formula a tensor that begins at 0 would never leave it. Biases and the scales of norms have
// neither ratio nor decay (rule_of_vectors()).
// update.h's trust_ratio() computes the ratio, from sums over all pieces of the tensor.
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Lars {
 public:
  static constexpr std::size_t kSlots = 1;  // v

  Lars(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr * step.trust_ratio)),
        momentum_(as_float(rule.momentum)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    state[0] = momentum_ * state[0] + lr_ * g;
    w -= state[0];
  }

  // Its norm is what the ratio is made of.
  Floats measured(Floats g, Floats, Floats*) const { return g; }

 private:
  float lr_, momentum_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
