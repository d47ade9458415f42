// Whether all ranks' gradients of an exchange are finite, known on all of them when it ends.
//
// Each rank looks at its own gradients as they leave, which backward has just written, and a note
// in the last bucket tells the others: averages of finite numbers are finite, unless their sum
// overflows. So what is so large that it might, counts as infinite. 16-bit floats of few exponents
// (f16) are near that all the time, and so is what travels as such: they are looked at when the
// averages are there, the same bits on all ranks. One thread at a time.
#pragma once

#include <limits>
#include <vector>

#include "asup/base/buffer.h"

namespace asup::sync {

// NaN where one is.
double largest_magnitude(const Buffer& buffer);

class FiniteLook {
 public:
  // Where it does not look, all is taken for finite.
  FiniteLook(bool looks, int ranks) : looks_(looks), ranks_(ranks) {}

  bool looks() const { return looks_; }

  // A round begins.
  void begin();
  // These leave next, times `factor`. `bound`: magnitudes are known not to be above it; NaN tells
  // nothing. `as_f16`: they travel so.
  void leaves(const Buffer& gradients, double factor,
              double bound = std::numeric_limits<double>::infinity(), bool as_f16 = false);
  // What this rank tells; the average over ranks comes back.
  double note() const { return finite_ ? 0 : 1; }
  // The averages are there: of the note, and of what has left.
  void ends(double note);

  // Of the last round. Gradients of rounds add up, so that those before it are in it.
  bool finite() const { return finite_; }

 private:
  const bool looks_;
  const int ranks_;
  bool finite_ = true;
  std::vector<Buffer> narrow_;  // to be looked at when they are averages
};

}  // namespace asup::sync
