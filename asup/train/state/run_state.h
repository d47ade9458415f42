// The books of a run, whichever way its workers stay in step: what it works on, its folder, who is
// told, tests, checkpoints and the end. Used from the thread that trains.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/job.h"
#include "asup/report/observer.h"
#include "asup/report/run_folder.h"
#include "asup/train/state/evaluate.h"
#include "asup/train/state/stage_watch.h"
#include "asup/train/state/train_end.h"
#include "asup/train/state/training_context.h"
#include "asup/train/step_hooks.h"
#include "asup/train/weights.h"

namespace asup {
class RecordedTimeline;
}

namespace asup::train {

// The rank that a worker had at first: its id counts members from 1 as they come.
inline std::int64_t first_rank_of(const net::Member& worker) {
  return static_cast<std::int64_t>(worker.id) - 1;
}

class RunState {
 public:
  // Collective. `display` is told on rank 0 alone.
  // `timeline`: where one is recorded; outlives it.
  RunState(Job& job, const TrainConfig& config, report::Observer& display, StepHooks& hooks,
           RecordedTimeline* timeline = nullptr);

  const TrainConfig& config() const { return context_.config; }  // as it counts in this phase
  const report::RunFolder& folder() const { return folder_; }
  TrainingContext& context() { return context_; }
  Communicator& control() { return *context_.control; }
  // It keeps the folder, and tells people what happens: rank 0, or the first of those who are left.
  bool is_first_rank() const { return first_rank_; }

  int rank() const { return rank_; }  // in the job

  StepHooks& hooks() { return hooks_; }

  std::int64_t step() const { return step_; }  // done
  double share_done(std::int64_t step) const {
    return static_cast<double>(step) / static_cast<double>(context_.length.steps);
  }
  void set_step(std::int64_t step) { step_ = step; }
  // Where workers go at their own pace: what each has done, for checkpoints; empty elsewhere.
  const std::vector<std::int64_t>& samples_by_worker() const { return samples_by_worker_; }
  void set_samples_by_worker(std::vector<std::int64_t> samples) {
    samples_by_worker_ = std::move(samples);
  }
  std::int64_t last_step() const { return last_step_of(config()); }  // of this call and phase
  std::int64_t epoch() const;  // of the last step, counted from 1
  bool ends_epoch() const { return step_ % context_.length.steps_per_epoch == 0; }
  bool due(const Every& every) const { return due(every, step_ - 1); }
  // In one of the steps after this one.
  bool due(const Every& every, std::int64_t after) const;
  double seconds() const { return totals_.seconds + seconds_since(began_); }
  Totals& totals() { return totals_; }  // what has been trained is added by whoever trains

  // Where the run that is resumed in its own folder has come to its end before: as it ended. On the
  // rank that keeps the folder.
  std::optional<report::Summary> finished_before() const;
  // Makes the folder, unless an earlier generation of this run has `begun` to write it, and tells
  // that the run begins.
  void begin(bool begun);
  // Whether this worker could keep the run's folder: it is on a file system that it can see.
  bool sees_folder() const;
  // This worker writes the run's folder from now on, instead of one that is lost.
  void keep_folder();
  // The others go on without these workers, by their ranks.
  void lose(const std::vector<int>& ranks);
  // These were lost in earlier generations, by first_rank_of().
  void lost_before(std::vector<std::int64_t> workers) { lost_ = std::move(workers); }
  template <typename... Parameters, typename... Args>
  void tell(void (report::Observer::*event)(Parameters...), const Args&... args) {
    for (report::Observer* observer : observers_) (observer->*event)(args...);
  }
  // What the servers tell of their pace: kept in the folder, and told. On the rank that keeps it.
  std::string keep_server_report();
  // The run ends here, and its folder says why. Where others go on, they say otherwise.
  void failed(const std::string& why);
  // A row of metrics.
  void log(report::StepRecord record);
  double last_loss() const { return last_loss_; }  // in the last row
  std::optional<double> noise_scale() const;       // of gradients (base/noise_scale.h), if known

  // Collective, as is what follows. All that was trained has been logged.
  void test();
  // Not at the end: on validation samples where there are any, else a test as any.
  void test_between();
  void save();
  // Whether the run ends before its last step: no test between was better for long enough.
  bool ends_early() const { return config_.patience && tests_since_best() >= *config_.patience; }
  // Whether stages are to be cut anew (`--rebalance`), which the next checkpoint says then: the run
  // goes on from it as another generation. Collective.
  bool cuts_stages_again();
  // Whether this step's test is the best, and a checkpoint of it is to stay.
  bool is_best_to_keep() const { return config_.keep_best && best_ && best_->step == step_; }
  // What was recorded since the last time goes to where the folder is kept; nothing where no
  // timeline is recorded.
  void collect_timeline();
  // The same of those who are left, where the run cannot go on without a worker that was lost.
  void collect_timeline_after_loss();
  // At the end: whether a test and a checkpoint are wanted and not done.
  bool wants_last_test() const;
  bool wants_last_checkpoint() const;
  // They, and then the summary and the report; may be done again where somebody was lost in it.
  TrainEnd conclude();

  // Whether the run is to go on by another way from here: then a loop returns, and conclude() does
  // nothing yet.
  bool switches() const;
  // Whether all models are to become one here: the run ends, or goes on by another way.
  bool must_merge() const;
  // It is to change to this strategy, at the sync point that all have come to. needs: it has no
  // phases
  void go_on_by(const Strategy& strategy);
  // It is not, after all.
  void stay();
  // Goes on by the other way. Collective. needs: switches(), and a settled replica
  void switch_strategy(Job& job);

 private:
  bool resumes_in_place() const;
  void check_still_as_found() const;
  bool has_ended_without_this() const;
  void open_files(std::int64_t first_step);
  void forget_own_counts();
  void require_all_workers();
  void write_way();
  void write_layers() const;
  report::Summary summarise();
  bool is_finished() const { return step_ >= context_.length.steps || ends_early(); }
  std::int64_t tests_since_best() const { return best_ ? best_->tests_since : 0; }
  report::EvalRecord mark(const data::Dataset& dataset, Evaluation& evaluation);
  void compare_with_best(const report::EvalRecord& test);
  void with_model_to_use(const std::function<void()>& use);
  void add_average(checkpoint::Trained& trained);
  Weights mean_weights();
  void write_generated(const Weights& weights);
  Metadata describe_model() const;
  std::int64_t last_step_of(const TrainConfig& config) const;
  std::uint64_t bytes_moved();
  std::uint64_t sum_over_ranks(std::uint64_t value, ReduceOp op = ReduceOp::sum);
  CheckpointInfo checkpoint_info();
  std::vector<GradScalerState> loss_scales_of_all();

  // Constant after construction.
  const int rank_;
  const report::RunFolder folder_;
  report::Observer& display_;
  StepHooks& hooks_;
  RecordedTimeline* const timeline_;  // null: none is recorded

  TrainConfig config_;  // of the whole run; where it is found out on the way, with `then`
  TrainingContext context_;
  std::optional<std::int64_t> switch_step_;

  std::vector<report::Observer*> observers_;
  std::unique_ptr<report::Observer> metrics_, tensorboard_;

  const net::Roster roster_;             // of the generation
  const std::string who_;                // this worker, for people
  std::optional<report::RunLock> lock_;  // where it keeps the folder
  bool first_rank_;
  std::int64_t step_ = 0;
  std::deque<report::StepRecord> logged_;  // the last rows
  std::vector<std::int64_t> lost_;
  std::vector<std::int64_t> samples_by_worker_;
  Stall stall_;
  std::optional<StageWatch> stages_;                     // where they may be cut again
  double last_loss_ = 0;                                 // in the last row
  std::optional<report::EvalRecord> test_, validation_;  // the last ones
  // Of tests between; and as it was before the one after step compared_, which may be made again.
  std::optional<report::BestTest> best_, best_before_;
  std::int64_t compared_ = -1;
  std::string checkpoint_;  // the last one's name
  std::int64_t checkpoint_step_ = -1;
  Totals totals_;  // of earlier calls; train_seconds, comm_s and samples of this one too
  const Clock::time_point began_ = Clock::now();
};

}  // namespace asup::train
