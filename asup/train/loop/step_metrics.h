// What workers that go in step note of their steps: each its own, and now and then the sums over
// all, which travel beside the computation. Used from the thread that trains.
#pragma once

#include <optional>

#include "asup/report/records.h"
#include "asup/train/loop/tally.h"

namespace asup::train {

class StepMetrics {
 public:
  // The communicator must outlive it.
  explicit StepMetrics(Communicator& communicator)
      : communicator_(communicator), tally_(communicator) {}

  // This worker has done its part of a step: `record` without what all must know of it, and the sum
  // of the losses of so many samples.
  void note(const report::StepRecord& record, double loss, std::size_t samples);
  bool empty() const { return noted_.samples == 0; }  // since the last time that it was told
  // So long the step took in all, until `now`, in seconds.
  void took(double seconds, double now, const std::vector<std::int64_t>& parts);

  // What all say of the steps that were told last.
  struct Told {
    report::StepRecord steps;  // without what the replica knows
    bool stop = false;         // somebody was asked to
  };

  // Tells the others of all that was noted since the last time. needs: collect() since. Collective.
  void tell(double wait_seconds, bool stop_asked);
  // Nothing where nothing was told. Throws JobFailed. Collective.
  std::optional<Told> collect();

  // Where those who are left have rebuilt the communicator: some may have collected what others
  // have not, who learn it here; what nobody has collected is noted again, to be told with what
  // comes next. Collective.
  std::optional<Told> regroup();

 private:
  Told take_in(const StepFigures& sums);

  Communicator& communicator_;
  Tally tally_;
  StepFigures own_, told_own_;       // since the last tally was started, and in that
  report::StepRecord noted_, told_;  // the same
  StepFigures sums_;                 // of the last tally that was collected
  std::int64_t collected_ = 0;       // tallies
  bool under_way_ = false;
};

}  // namespace asup::train
