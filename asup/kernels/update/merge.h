// Merging: what is pushed are parameters, not gradients, and the common ones move towards their
// mean.
//
//   w ← w + lr · (g − w)
//
// lr 1 makes them the mean, and so does a larger one, of pushes that have more than a step's
// samples: beyond their mean is nothing that anybody has trained. Values only; safe from any
// thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Merge {
 public:
  static constexpr std::size_t kSlots = 0;

  Merge(const Rule&, const UpdateStep& step) : lr_(as_float(step.lr < 1 ? step.lr : 1)) {}

  void apply(Floats g, Floats& w, Floats*) const { w += lr_ * (g - w); }

 private:
  float lr_;
};

}  // namespace
}  // namespace asup::kernels
