// The gradients of a step that comes in parts: each counts by its share, and their mean is what
// second moments are made of when the step ends. What a part has beyond the step's end is the begin
// of the next one.
//
//   p ← p + share · g,  mean = p / (gathered + share)
//
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/step_power.h"
#include "asup/kernels/update/arithmetic.h"

namespace asup::kernels {
namespace {

class Gathered {
 public:
  explicit Gathered(const UpdateStep& step)
      : ends_(step.ends_step()),
        used_(as_float(used_of(step))),
        beyond_(as_float(beyond(step))),
        scale_(as_float(1 / (step.gathered + used_of(step)))) {}

  bool ends_step() const { return ends_; }

  // Of the step, up to this part.
  Floats mean(Floats g, Floats& sum) const {
    const Floats so_far = sum + used_ * g;
    sum = ends_ ? beyond_ * g : so_far;
    return so_far * scale_;
  }

  // What is divided by while the step is not over: the square of the mean so far, and no less than
  // this part's own would add to it. Gradients of parts may cancel out, and where there is no
  // history yet, parts would be divided by next to nothing.
  Floats square(Floats g, Floats mean) const {
    return Max::apply<float>(mean * mean, used_ * g * g);
  }

 private:
  static double used_of(const UpdateStep& step) {
    const double room = 1 - step.gathered;
    return step.share - room > 1e-9 ? room : step.share;
  }
  // Whole steps beyond are none of their own.
  static double beyond(const UpdateStep& step) {
    const double left = step.share - used_of(step);
    return left - __builtin_floor(left);
  }

  bool ends_;
  float used_, beyond_, scale_;
};

// The momentum of a part of a step, for the rules of this folder (MomentumPower).
struct PartialMomentum {
  PartialMomentum(double momentum, double gain, double share)
      : PartialMomentum(momentum_power(momentum, gain, share)) {}
  explicit PartialMomentum(const MomentumPower& power)
      : keep(as_float(power.keep)),
        gain(as_float(power.gain)),
        from_v(as_float(power.from_v)),
        from_u(as_float(power.from_u)) {}

  // Gives what the velocities add up to.
  Floats advance(Floats& v, Floats u) const {
    const Floats way = from_v * v + from_u * u;
    v = keep * v + gain * u;
    return way;
  }

  float keep, gain, from_v, from_u;
};

}  // namespace
}  // namespace asup::kernels
