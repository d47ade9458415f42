// How many steps workers take between two merges of their models, from the loss and the learning
// rate. Values only.
//
// Far from a minimum, models that drift apart for many steps lose little and save communication;
// near to it, the drift is what is left of the error, unless the learning rate has become small:
//
//   k = clamp(ceil(k_0 sqrt((lr_0 / lr) (loss / loss_0))), 1, 16)
//
// J. Wang and G. Joshi, "Adaptive communication strategies to achieve the best error-runtime
// trade-off in local-update SGD", SysML 2019, arXiv:1810.08313, equation 16 and section 4.3. It is
// the rule of Paddle Fleet's adaptive local SGD with k_0^2 for its initial number of steps. While
// the learning rate rises (a warm-up), loss_0 and lr_0 are the last round's: with those of the
// first step, k would fall to 1 until the rate came back to where it began.
#pragma once

#include <cstdint>
#include <string>

namespace asup::sync {

class AdaptiveInterval {
 public:
  AdaptiveInterval() = default;
  // Goes on from what to_text() said. Throws BadInput for a text that it did not.
  explicit AdaptiveInterval(const std::string& text);

  std::int64_t steps() const { return steps_; }

  // A round is over: the mean loss of its samples on all ranks, and the learning rate. A loss that
  // is no positive number changes nothing.
  void after_round(double loss, double lr);

  std::string to_text() const;

 private:
  double loss_0_ = 0, lr_0_ = 0;  // 0: before the first round
  std::int64_t steps_ = 8;
};

}  // namespace asup::sync
