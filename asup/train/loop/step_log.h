// The log of a run's steps: sums of what workers note become rows of metrics, progress that is
// shown, and totals; and a loss that is no number ends the run. Used from the thread that trains.
#pragma once

#include <functional>

#include "asup/train/batch_schedule.h"
#include "asup/train/loop/metrics.h"
#include "asup/train/loop/sample_count.h"
#include "asup/train/loop/work_source.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class StepLog {
 public:
  StepLog(RunState& run, const WorkSource::Traits& traits);

  // Time goes on after a test or a checkpoint.
  void resume();
  std::int64_t first() const { return metrics_.first(); }  // what is not summed yet begins here

  // A step's part is computed, and then done; this worker stood still for so many seconds of it.
  void add(const StepOutcome& outcome);
  void took(const StepWork& work, const StepOutcome& outcome, double waited);
  // So many steps were left out, since gradients were no numbers; `gives_up`: too many in
  // succession.
  void skipped(const StepOutcome& outcome, std::uint64_t steps, Metrics::GivesUp gives_up);

  // Sums over workers of all up to the run's step, beside the computation; collect() takes them in,
  // and says whether a worker was asked to stop. Collective.
  void start(bool stop);
  bool collect();
  // The same at a sync point, which took so many seconds of waiting until here. `all_have`: see
  // Metrics::collect().
  void sum_up(double waited, const std::function<void()>& all_have);

  // After a loss, see Metrics. Collective.
  void regroup();
  void put_back() { metrics_.put_back(); }
  void go_on_from(std::int64_t step, std::int64_t collected);
  std::int64_t collected() const { return metrics_.collected(); }

 private:
  bool take_in(const Metrics::Sums& sums);
  void prepare_sums();
  report::StepRecord blank_record(std::int64_t step) const;
  report::StepRecord record_of(const Metrics::Row& row, std::int64_t step);
  void require_finite(const Metrics::Row& row, const report::StepRecord& record);
  std::vector<double> gather_waits() const;
  bool is_known(const Metrics::Row& row) const;
  void flush();
  void show(std::int64_t step, double loss, double comm_s, double now, std::int64_t skipped = 0);

  RunState& run_;
  const WorkSource::Traits traits_;
  const SampleCount samples_;
  const Updates updates_;
  const std::vector<std::int64_t> sync_points_;
  Metrics metrics_;
  ReplicaStats stats_;                    // of the steps that were summed last
  std::optional<double> noise_scale_;     // of the steps that were summed last
  std::uint64_t merges_ = 0;              // of the replica's, in rows so far
  std::vector<std::int64_t> parts_;       // of a batch, in the last step
  std::vector<std::int64_t> told_parts_;  // of the steps that were summed last
  report::StepRecord row_;                // since the last row of metrics
  double waited_ = 0;                     // seconds, by this worker since the last sync point
  std::vector<double> waits_;             // by all, at the sync point that is held
  bool lost_some_ = false;                // since the last sums: what only they knew is lost
  std::int64_t told_ = 0;                 // steps in rows so far
  std::int64_t shown_ = 0;                // steps
  double shown_at_ = 0;
  double shown_wait_ = 0;  // this worker's own, of steps that are not summed yet
};

}  // namespace asup::train
