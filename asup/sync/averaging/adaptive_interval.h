// How many steps workers take between two merges of their models, from the loss and the learning
// rate, chosen anew after each stretch of time. Values only.
//
// Far from a minimum, models that drift apart for many steps lose little and save communication;
// near to it, the drift is what is left of the error, unless the learning rate has become small.
// After each T seconds:
//
//   k = ceil(k_0 sqrt((lr_0 / lr) (loss / loss_0)))
//
// or, where that is no less than it was and the learning rate is, half of what it was.
//
// AdaComm: J. Wang and G. Joshi, "Adaptive communication strategies to achieve the best
// error-runtime trade-off in local-update SGD", SysML 2019, arXiv:1810.08313, sections 4.1 to 4.3.
// While the learning rate rises (a warm-up), loss_0 and lr_0 are the last round's: with those of
// the first step, k would fall to 1 until the rate came back to where it began.
#pragma once

#include <cstdint>
#include <string>

#include "asup/base/clock.h"

namespace asup {

struct AdaptiveIntervalOptions {
  std::int64_t first_steps = 16;  // k_0
  Seconds seconds{60};            // T
};

namespace sync {

class AdaptiveInterval {
 public:
  // Goes on from what to_text() said; "": begins. Throws BadInput for a text that it did not say.
  explicit AdaptiveInterval(const AdaptiveIntervalOptions& options, const std::string& text = "");

  std::int64_t steps() const { return steps_; }

  // A round is over: the mean loss of its samples on all ranks, the learning rate, and the time
  // that it took. A loss that is no positive number changes nothing.
  void after_round(double loss, double lr, Seconds took);

  std::string to_text() const;

 private:
  void choose(double loss, double lr);

  AdaptiveIntervalOptions options_;
  std::int64_t steps_;
  double loss_0_ = 0, lr_0_ = 0;  // 0: before the first round
  double lr_ = 0;                 // when the steps were chosen
  Seconds since_{0};              // that
};

}  // namespace sync
}  // namespace asup
