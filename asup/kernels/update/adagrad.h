// Adagrad. J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods for online learning and
// stochastic optimization", JMLR 12 (2011), with the diagonal of section 1.1, as
// torch::optim::Adagrad has it without decay of the learning rate: sums begin at 0, and eps is
// outside the root.
//
//   g ← g + weight_decay · w
//   s ← s + g²
//   w ← w − lr · g / (√s + eps)
//
// A part of a step (parts.h) divides by the root of the sum as it would be if the step ended with
// it. Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/gathered.h"

namespace asup::kernels {
namespace {

class Adagrad {
 public:
  static constexpr std::size_t kSlots = 1;  // s

  Adagrad(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr)),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    state[0] += g * g;
    w -= lr_ * g / (square_root(state[0]) + eps_);
  }

 private:
  float lr_, eps_, weight_decay_;
};

class AdagradPart {
 public:
  static constexpr std::size_t kSlots = 2;  // s, p

  AdagradPart(const Rule& rule, const UpdateStep& step)
      : gathered_(step),
        lr_(as_float(step.lr * step.share)),
        eps_(as_float(rule.eps)),
        weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    g += weight_decay_ * w;
    const Floats mean = gathered_.mean(g, state[1]);
    w -= lr_ * g / (square_root(state[0] + gathered_.square(g, mean)) + eps_);
    if (gathered_.ends_step()) state[0] += mean * mean;
  }

 private:
  Gathered gathered_;
  float lr_, eps_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
