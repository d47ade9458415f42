// What is known of workers' times, worked out once for a look of the controller. Values only; safe
// from any thread.
#pragma once

#include <map>
#include <vector>

#include "asup/ps/pace/timing.h"

namespace asup::ps::pace {

struct Watched {
  const Timing* timing = nullptr;  // may not be known yet
  double elapsed = 0;              // seconds that it has been at work on its lease
};

struct Measured {
  explicit Measured(const Timing& timing);
  double typical, overdue;      // of an even lease, in seconds
  double fixed;                 // the share of it that does not grow with the length
  double exchange;              // in which it does not compute, whatever the length
  std::vector<double> seconds;  // one after the other
  double mean;                  // of these

  void scale(double by);  // all times

  double factor(double length) const { return fixed + (1 - fixed) * length; }
  double length_for(double time) const { return (time / typical - fixed) / (1 - fixed); }
};
using Workers = std::map<int, Measured>;

// Who has not pushed yet is taken to be like another, or as slow as it has shown to be. None where
// nobody has.
Workers measure(const std::map<int, Watched>& workers);

// Lengths of leases with which all take equally long and that are even ones on average.
std::map<int, double> balanced_lengths(const Workers& workers);

}  // namespace asup::ps::pace
