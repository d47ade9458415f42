// What workers add up between two sync points, where no two of them are in the same step: losses,
// by intervals of logging, so that metrics are as exact as if all had worked in step. Values only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace asup::train {

class SyncPointTally {
 public:
  // One interval's figures, of a worker or of all.
  struct Row {
    double loss = 0;     // sum over samples
    double samples = 0;  // of which the loss is known
    double waited = 0;   // seconds for parameters
    double ended = 0;    // when the last of it was done here; 0: none was
  };

  explicit SyncPointTally(std::int64_t log_every) : log_every_(log_every) {}

  // Forgets all; from step `first` on (steps before it are done), at time `now`.
  void begin(std::int64_t first, double now);

  // The same, but what was added since counts for step `first`: others have been there before.
  void go_on_from(std::int64_t first, double now);

  // A lease of this step (0 first) is done.
  void add(std::int64_t step, double loss, double samples, double waited, double now);

  // The rows up to a sync point after `step` steps: their last steps, counted from 1.
  std::vector<std::int64_t> last_steps(std::int64_t step) const;
  // loss, samples, waited of each of those rows: to be summed over workers. What was added for
  // later steps is in the last.
  std::vector<double> sums(std::int64_t step) const;
  // When each of those rows ended by this worker's clock, ascending; where it had nothing to do in
  // one, evenly between its neighbours. The last ends `now`.
  std::vector<double> ends(std::int64_t step, double now) const;
  std::int64_t first() const { return first_; }
  double began() const { return began_; }

 private:
  std::size_t row_of(std::int64_t step) const;

  const std::int64_t log_every_;
  std::int64_t first_ = 0;
  double began_ = 0;
  std::vector<Row> rows_;
};

}  // namespace asup::train
