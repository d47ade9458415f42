// AdamW: Adam with weight decay beside the gradient instead of in it. I. Loshchilov and F. Hutter,
// "Decoupled weight decay regularization", ICLR 2019, arXiv:1711.05101, algorithm 2, with the decay
// times the learning rate as torch::optim::AdamW has it.
//
//   w ← w · (1 − lr · weight_decay), then Adam's update (adam.h) without decay
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/update/adam.h"

namespace asup::kernels {
namespace {

template <bool kAmsgrad>
class AdamW {
 public:
  static constexpr std::size_t kSlots = Adam<kAmsgrad>::kSlots;

  AdamW(const Rule& rule, const UpdateStep& step)
      : adam_(rule, step), keep_(as_float(1 - step.lr * rule.weight_decay)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    w *= keep_;
    adam_.descend(g, w, state);
  }

 private:
  Adam<kAmsgrad> adam_;
  float keep_;
};

}  // namespace
}  // namespace asup::kernels
