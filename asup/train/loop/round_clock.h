// Rounds of a given time, after which workers that train at their own pace meet. Used from one
// thread.
#pragma once

#include <chrono>
#include <cstddef>

#include "asup/base/clock.h"

namespace asup::train {

class RoundClock {
 public:
  // Zero: rounds have no end.
  explicit RoundClock(Seconds seconds) : seconds_(seconds) {}

  void begin_round() { began_ = Clock::now(); }
  // Since then, time has passed that is no part of the round.
  void leave_out(Clock::time_point since) { began_ += Clock::now() - since; }
  // A step took so long, or such a share of one.
  void stepped(double seconds, double share = 1);

  // Whether enough steps were taken to know how long one takes; always, where it need not be known.
  bool measured() const;
  // So many of the samples of a step fit into what is left of the round: all, or the last portion,
  // which is a quarter of them at least.
  std::size_t fit(std::size_t samples) const;
  // The time is over, or would be before the end of a last portion: who began one would be waited
  // for.
  bool over() const;

  // Steps that a worker may have samples for beside the one that it begins: some seconds' worth, or
  // in a round two, so long as they end well before it does. None before a step was taken.
  std::size_t steps_ahead() const;

  // Zero until it is measured: a first step alone may have taken far longer than those to come.
  std::chrono::nanoseconds shortest_step() const;
  // Throws BadInput where no step of the slowest worker fits into a round.
  void require_longer_than(std::chrono::nanoseconds slowest_step) const;

 private:
  double steps_left() const;

  const Seconds seconds_;
  Clock::time_point began_;
  int steps_ = 0;
  double last_ = 0;  // step's seconds
  std::chrono::nanoseconds shortest_{0};
};

}  // namespace asup::train
