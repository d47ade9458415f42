// A part of a step of sgd, momentum or nesterov: the power of the step that its share is, which is
// a linear map of w, v and g (step_power.h has the equations).
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/step_power.h"
#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

template <bool kVelocity>
class LinearPart {
 public:
  static constexpr std::size_t kSlots = kVelocity;  // v

  LinearPart(const Rule& rule, const UpdateStep& step) : LinearPart(linear_power(rule, step)) {}

  void apply(Floats g, Floats& w, Floats* state) const {
    Floats change = ww_ * w + wg_ * g;
    if constexpr (kVelocity) {
      change += wv_ * state[0];
      state[0] = vv_ * state[0] + vw_ * w + vg_ * g;
    }
    w += change;
  }

 private:
  explicit LinearPart(const LinearPower& power)
      : ww_(as_float(power.ww)),
        wv_(as_float(power.wv)),
        wg_(as_float(power.wg)),
        vw_(as_float(power.vw)),
        vv_(as_float(power.vv)),
        vg_(as_float(power.vg)) {}

  float ww_, wv_, wg_, vw_, vv_, vg_;
};

}  // namespace
}  // namespace asup::kernels
