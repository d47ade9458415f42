// A sync point: a step after which all workers do something together. Figures are summed up and
// logged, models merged where they are to be, a test and a checkpoint made where they are due, and
// the run is concluded at its last. Used from the thread that trains.
//
// Where a worker is lost in one, those who are left hold it again: what all of them have done of it
// is not repeated, what some have not is done by all.
#pragma once

#include <functional>
#include <optional>

#include "asup/train/loop/step_log.h"
#include "asup/train/loop/work_source.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class SyncPoints {
 public:
  // Everything must outlive it.
  SyncPoints(RunState& run, WorkSource& source, StepLog& log);

  // The one that this worker has come to. `stop` becomes what all agree on; `new_wait` says for how
  // many seconds this worker has stood still since it was last asked. Throws JobFailed: then it may
  // be held again. Collective.
  void hold(StopRequest& stop, const std::function<double()>& new_wait);
  // One took place without this worker.
  void missed();

  const std::optional<TrainEnd>& end() const { return end_; }  // where the last one was held

 private:
  // In this order.
  enum class Duty : std::int64_t {
    merge = 1,
    sums,
    kept,
    equality,
    test,
    checkpoint,
    timeline,
    all
  };

  void agree(StopRequest& stop);
  void merge();
  bool must_merge() const;
  bool models_are_equal() const;
  template <typename Work>
  void once(Duty duty, bool is_due, const Work& work);

  RunState& run_;
  WorkSource& source_;
  StepLog& log_;
  const bool exchanges_models_;  // which differ between merges

  std::int64_t held_;         // the last one that was held, in steps
  std::int64_t done_;         // steps times kDuties, and of the last one's duties the last
  bool late_ = false;         // the last one took place without this worker
  std::int64_t merged_ = -1;  // after so many steps this worker's model became that of all
  std::optional<TrainEnd> end_;

  // Of all who are there, as agreed.
  std::int64_t held_by_all_ = 0, done_by_all_ = 0;
};

}  // namespace asup::train
