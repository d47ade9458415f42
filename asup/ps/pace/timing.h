// How long one worker takes, from its recent leases: from its release to its push, as the head sees
// it.
//
// A window of times that were really measured, so that pauses and jitter stay what they are. One
// odd time is a pause and changes nothing that is expected; two in a row that agree with each other
// and with nothing before are a new speed, and what was before is forgotten. One thread at a time.
#pragma once

#include <deque>

namespace asup::ps::pace {

class Timing {
 public:
  void add(double seconds_per_sample);

  bool is_known() const { return !recent_.empty(); }
  const std::deque<double>& recent() const { return recent_; }  // oldest first

  // Of a sample, in seconds. need: is_known()
  double typical() const;  // the median of the last few
  double mean() const;     // of the window
  double overdue() const;  // later than this is no jitter

 private:
  std::deque<double> recent_;
};

}  // namespace asup::ps::pace
