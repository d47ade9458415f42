// Trains a run's phase: every way of training goes through here. What to compute comes from a
// source of work, the replica keeps workers in step, and sync points are held where they are due.
// Used from one thread.
//
// Where the way of staying in step allows it, those who are left go on when a worker is lost
// (sync/recovery.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "asup/net/job.h"
#include "asup/train/loop/run_recovery.h"
#include "asup/train/loop/step_executor.h"
#include "asup/train/loop/step_log.h"
#include "asup/train/loop/sync_points.h"
#include "asup/train/loop/work_source.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class Trainer {
 public:
  // Everything must outlive it. Collective.
  Trainer(RunState& run, Job& job, const std::function<bool()>& stop_asked);

  // To the last step of the run's phase, or to a sync point at which the loss has it switch its
  // strategy, or until any worker's `stop_asked`, which is looked at after every step; and
  // concludes the run. Nobody leaves before that. Collective.
  TrainEnd train();

 private:
  void go_on();
  void take_step();
  StepOutcome told(const StepOutcome& outcome) const;
  StepWork next_work();
  void exchange(const StepWork& work, const StepOutcome& outcome);
  bool note_skipped(const StepOutcome& outcome);
  void hold_sync_point();
  bool recover(const JobFailed& failure);
  bool makes_steps_alone() const { return run_.context().local || run_.context().server; }
  void end_lost_step();
  void count_step(const StepOutcome& outcome);
  void rejoin();
  double new_wait();

  RunState& run_;
  Replica& replica_;
  const std::function<bool()>& stop_asked_;
  std::optional<RunRecovery> recovery_;  // where those who are left go on without the lost
  const std::unique_ptr<WorkSource> source_;
  const std::unique_ptr<StepExecutor> executor_;
  StepLog log_;
  SyncPoints sync_points_;

  // What this worker is doing, as recovery must know it.
  enum class Stage { beginning, steps, sync_point, rejoining };
  Stage stage_ = Stage::beginning;
  bool hold_again_ = false;  // a sync point, since the last one was not held to its end
  // A step whose exchange has not ended.
  struct UnderWay {
    std::uint64_t made_before = 0;         // steps of the replica
    std::optional<StepOutcome> outcome{};  // when it is computed
  };
  std::optional<UnderWay> under_way_;

  StopRequest stop_;
  double waited_ = 0;          // seconds that this worker stood still, told so far
  std::int64_t next_step_;     // probably; counted from 1
  std::uint64_t skipped_ = 0;  // of the replica's steps, told so far
};

}  // namespace asup::train
