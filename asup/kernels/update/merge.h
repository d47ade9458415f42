// Merging: what is pushed are parameters, not gradients, and the common ones move towards their
// mean.
//
//   w ← w + lr · (g − w)
//
// lr 1 makes them the mean. Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Merge {
 public:
  static constexpr std::size_t kSlots = 0;

  Merge(const Rule&, const UpdateStep& step) : lr_(as_float(step.lr)) {}

  void apply(Floats g, Floats& w, Floats*) const { w += lr_ * (g - w); }

 private:
  float lr_;
};

}  // namespace
}  // namespace asup::kernels
