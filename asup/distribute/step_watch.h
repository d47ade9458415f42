// Notices when a program calls optimizer.step() where it should call replica->step(): weights move,
// ranks drift apart, and nothing else would show.
//
// It looks at a few elements of each parameter when a backward that synchronizes has ended, and
// again when the next one begins, at step() and at the end. Used from the thread that trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/sync/gradients/gradient_hooks.h"

namespace asup {

class StepWatch {
 public:
  // needs: to be made before the replica, so that its hooks are called before the replica's.
  explicit StepWatch(std::vector<sync::NamedTensor> trainable);

  // Whether the backward passes to come are those that a step() follows.
  void set_sync(bool sync) { sync_ = sync; }
  // Weights may have moved, and that was in order.
  void settle() { looks_ = false; }
  // What is wrong, or nothing.
  std::string complaint() const;
  // Throws it as an Error.
  void check() const;

 private:
  void before_gradient();
  void after_gradient();
  std::uint64_t fingerprint() const;

  const std::vector<sync::NamedTensor> trainable_;
  bool sync_ = true;
  int begun_ = -1, ends_ = -1;  // the backward that has begun last; whose end is waited for
  bool looks_ = false;          // a backward has ended, and no step has followed
  std::uint64_t seen_ = 0;      // then
  sync::GradientHooks hooks_;   // last: they use all above
};

}  // namespace asup
