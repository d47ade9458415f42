// How long one worker takes for a lease, from its release to its push, as the head sees it.
//
// A window of times that were really measured, so that pauses and jitter stay what they are. One
// odd time is a pause and changes nothing that is expected; two in a row that agree with each other
// and with nothing before are a new speed, of the worker or of its links, and what was before is
// forgotten. The first lease, with all that is done for the first time, counts only until there is
// a second.
//
// Leases differ in length. An even lease is B / n samples; one that is r times as long is taken to
// last f + (1 - f) r times as long, and the fixed share f is estimated where lengths change. One
// thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace asup::ps::pace {

class Timing {
 public:
  // Of the typical time, while a worker is not settled: a few times do not tell how they vary.
  static constexpr double kFirstMargin = 0.3;

  // `length`: of the lease, even ones being 1. `exchange`: of these seconds, those in which the
  // worker did not compute, as parameters and gradients were on their way.
  void add(double length, double seconds, double exchange = 0);

  bool is_known() const { return !recent_.empty(); }
  bool has_only_first() const { return times_ == 1; }
  // Where only the first time is known: by how much later ones are likely to be shorter, as another
  // worker's were. needs: has_only_first()
  double factor_after_first(const Timing& other) const;
  bool is_settled() const { return times_ > kFirstTimes; }

  // Of an even lease, in seconds. need: is_known()
  double typical() const;               // the median of the last few
  double overdue() const;               // later than this is no jitter
  double exchange() const;              // the median of the last few, whatever the length
  std::vector<double> seconds() const;  // the window, oldest first

  // What another length makes of it.
  double factor(double length) const { return fixed_ + (1 - fixed_) * length; }
  double fixed() const { return fixed_; }
  // The length that takes so many seconds.
  double length_for(double seconds) const;

 private:
  static constexpr std::uint64_t kFirstTimes = 3;

  struct Time {
    double length, seconds, exchange;
  };
  double even(const Time& time) const { return time.seconds / factor(time.length); }
  std::vector<double> last_few() const;
  void learn_fixed(const Time& time);
  bool is_new_speed(const Time& time) const;

  std::deque<Time> recent_;
  double first_ = 0;         // the first time, of an even lease
  std::uint64_t times_ = 0;  // in all
  double fixed_ = 0.1;
  Time before_{};     // usual, before lengths changed last
  int to_learn_ = 0;  // times from which the fixed share is still to be estimated
};

// Of two workers' times those that tell more of a third one's: better from more than a first lease.
// Either may be null or not known; null where both are.
const Timing* better_known(const Timing* one, const Timing* other);

}  // namespace asup::ps::pace
