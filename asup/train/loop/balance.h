// Divides batches among workers that stay in step by all-reduce, by how fast each has been.
//
// Each worker watches how long its own work on a step takes, without waiting for others. Now and
// then all tell each other, beside a step, and change the parts where that is worth it: the same on
// all. Used from the thread that trains; collective.
#pragma once

#include <cstdint>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/ps/pace/timing.h"

namespace asup::train {

class Balance {
 public:
  // Begins with `parts`, where they are parts of such a batch, else with even ones. The
  // communicator must outlive it.
  Balance(Communicator& communicator, std::int64_t batch, const std::vector<std::int64_t>& parts);
  ~Balance();
  Balance(const Balance&) = delete;
  Balance& operator=(const Balance&) = delete;

  // Samples of a whole batch, by rank.
  const std::vector<std::int64_t>& parts() const { return parts_; }

  // This worker's own work on `samples` of a step took so long. Parts of shorter batches are not
  // looked at.
  void worked(std::int64_t samples, double seconds);

  // Tells the others how fast this one is, once a step has shown it. needs: collect() since the
  // last start().
  void start();
  // Takes in what all told; returns whether parts have changed. Throws JobFailed.
  bool collect();

 private:
  double even() const;  // samples

  // Constant after construction.
  Communicator& communicator_;
  const std::int64_t batch_;

  std::vector<std::int64_t> parts_;
  ps::pace::Timing timing_;
  std::vector<std::int64_t> told_;  // fixed_ps and sample_ps by rank; 0: not known yet
  Work work_;
  bool under_way_ = false;
};

}  // namespace asup::train
