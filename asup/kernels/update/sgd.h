// Stochastic gradient descent. H. Robbins and S. Monro, "A stochastic approximation method", Annals
// of Mathematical Statistics 22 (1951), doi:10.1214/aoms/1177729586.
//
//   g ← g + weight_decay · w
//   w ← w − lr · g
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Sgd {
 public:
  static constexpr std::size_t kSlots = 0;

  Sgd(const Rule& rule, const UpdateStep& step)
      : lr_(as_float(step.lr)), weight_decay_(as_float(rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats*) const {
    g += weight_decay_ * w;
    w -= lr_ * g;
  }

 private:
  float lr_, weight_decay_;
};

}  // namespace
}  // namespace asup::kernels
