#include "asup/train/loop/trainer.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "asup/base/timeline.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/sync/gradients/finite_steps.h"
#include "asup/train/loop/even_batches.h"
#include "asup/train/loop/leased_work.h"
#include "asup/train/loop/own_pace.h"
#include "asup/train/loop/pipeline_step.h"
#include "asup/train/loop/train_step.h"

namespace asup::train {
namespace {

std::unique_ptr<WorkSource> make_source(RunState& run, Job& job,
                                        const std::optional<RunRecovery>& recovery) {
  const auto left = [&run, &recovery] {
    if (recovery) return recovery->left();
    std::vector<int> all(static_cast<std::size_t>(run.config().workers));
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  if (run.context().server) return std::make_unique<LeasedWork>(run, left);
  if (!run.config().strategy.capabilities().lockstep)
    return std::make_unique<OwnPace>(run, job, left);
  return std::make_unique<EvenBatches>(run);
}

// Where workers average gradients, what one computes is not its own when backward has ended.
NoiseScale* noise_of_portions(RunState& run) {
  const bool averages = run.config().strategy.capabilities().exchanges == Exchange::gradients;
  return averages && run.config().workers > 1 ? nullptr : &run.context().portion_noise;
}

std::unique_ptr<StepExecutor> make_executor(RunState& run) {
  TrainingContext& context = run.context();
  if (context.spread && context.spread->has_stages())
    return std::make_unique<PipelineStep>(*context.spread, *context.optimizer, *context.replica,
                                          run.hooks());
  return std::make_unique<TrainStep>(*context.model, *context.optimizer, *context.replica,
                                     context.path, run.config(), run.hooks(), context.offload,
                                     noise_of_portions(run), context.scaler.get());
}

std::optional<RunRecovery> make_recovery(RunState& run, Job& job) {
  if (!RunRecovery::is_for(run, job)) return std::nullopt;
  return std::optional<RunRecovery>(std::in_place, run, job);
}

Metrics::GivesUp gives_up_after(const ReplicaStats& stats) {
  if (!sync::too_many_skipped(stats)) return Metrics::GivesUp::no;
  return stats.skipped_in_succession >= sync::kMostSkippedSteps ? Metrics::GivesUp::in_succession
                                                                : Metrics::GivesUp::lately;
}

}  // namespace

Trainer::Trainer(RunState& run, Job& job, const std::function<bool()>& stop_asked)
    : run_(run),
      replica_(*run.context().replica),
      stop_asked_(stop_asked),
      recovery_(make_recovery(run, job)),
      source_(make_source(run, job, recovery_)),
      executor_(make_executor(run)),
      log_(run, source_->traits()),
      sync_points_(run, *source_, log_),
      next_step_(run.step() + 1) {}

TrainEnd Trainer::train() {
  if (run_.step() >= run_.last_step() || run_.ends_early()) {
    // Stopped where it turns out to be done, a run has yet to merge.
    if (run_.must_merge() && replica_.models_differ()) replica_.synchronize();
    const TrainEnd end = run_.conclude();
    run_.control().barrier().or_throw();
    return end;
  }
  // All may have to come to the last sync point again.
  while (!sync_points_.end() || hold_again_ || source_->sync_point_due(stop_)) try {
      go_on();
    } catch (const JobFailed& failure) {
      if (!recover(failure)) throw;
    }
  return *sync_points_.end();
}

void Trainer::go_on() {
  if (recovery_) recovery_->require_place();
  if (stage_ == Stage::beginning) source_->begin();
  if (stage_ == Stage::rejoining) rejoin();
  stage_ = Stage::steps;
  stop_.asked = stop_.asked || stop_asked_();
  if (hold_again_ || source_->sync_point_due(stop_))
    hold_sync_point();
  else
    take_step();
}

// A whole step, in whichever way workers stay in step.
void Trainer::take_step() {
  TimelineScope step(Activity::step, {.step = next_step_});
  const StepWork work = next_work();
  step.set_step(work.step + 1);
  next_step_ = work.step + 2;
  under_way_ = {.made_before = replica_.stats().steps};
  const StepOutcome outcome = told(executor_->run(work, run_.share_done(work.step)));
  under_way_->outcome = outcome;
  source_->computed(outcome);
  if (makes_steps_alone()) log_.add(outcome);
  exchange(work, outcome);
  if (!makes_steps_alone()) log_.add(outcome);
  under_way_.reset();
  if (auto& spread = run_.context().spread) spread->stepped();
  count_step(outcome);
  const double waited = new_wait();
  log_.took(work, outcome, waited);
  source_->stepped(waited);
  if (!work.alone && source_->sums_due()) {  // others do not sum up a step that is caught up with
    stop_.agreed = log_.collect() || stop_.agreed;  // the last ones travelled beside this step
    log_.start(stop_.asked);
  }
  // All are told at a sync point. Where such a step is skipped, the run goes on.
  if (!std::isfinite(outcome.loss) && !source_->traits().skips_non_finite) stop_.asked = true;
}

// Where several workers train one model, one of them tells of the samples and their loss.
StepOutcome Trainer::told(const StepOutcome& outcome) const {
  const auto& spread = run_.context().spread;
  return spread && !spread->tells() ? StepOutcome{.step = outcome.step} : outcome;
}

// The replica has made it.
void Trainer::count_step(const StepOutcome& outcome) {
  const bool skipped = note_skipped(outcome);
  if (auto& scaler = run_.context().scaler)
    scaler->update(skipped ? StepResult::skipped : StepResult::applied);
  if (auto& average = run_.context().average; average && !skipped) average->update(run_.step());
}

StepWork Trainer::next_work() {
  const TimelineScope scope(Activity::data);
  return source_->next();
}

// Whether the step was left out. Where all workers leave it out alike, or a group, one of them
// tells. After too many all are told at a sync point.
bool Trainer::note_skipped(const StepOutcome& outcome) {
  const ReplicaStats stats = replica_.stats();
  const std::uint64_t skipped = stats.skipped - std::exchange(skipped_, stats.skipped);
  if (skipped == 0) return false;
  const bool is_common = run_.config().strategy.capabilities().exchanges == Exchange::gradients;
  const Metrics::GivesUp gives_up = gives_up_after(stats);
  const auto& spread = run_.context().spread;
  const bool tells = is_common ? run_.control().rank() == 0 : !spread || spread->tells();
  log_.skipped(outcome, tells ? skipped : 0, gives_up);
  stop_.asked = stop_.asked || gives_up != Metrics::GivesUp::no;
  return true;
}

// Ends what left during backward, and steps.
void Trainer::exchange(const StepWork& work, const StepOutcome& outcome) {
  if (const auto most = run_.config().clip_norm; most && replica_.clips_after_exchange())
    replica_.clip_grad_norm(*most);
  if (work.alone && run_.context().server) return run_.context().server->step_alone();
  // Gradients that workers average have been weighed by their samples (StepWork::weight).
  if (run_.context().server || run_.context().local)
    replica_.describe_batch(work.samples_before + static_cast<std::uint64_t>(outcome.samples),
                            work.loss_before + outcome.loss);
  if (work.alone)
    run_.context().local->step_alone();
  else
    replica_.step();
}

void Trainer::hold_sync_point() {
  const TimelineScope scope(Activity::sync_point);
  stage_ = Stage::sync_point;
  hold_again_ = false;
  if (source_->come(stop_))
    sync_points_.hold(stop_, [this] { return new_wait(); });
  else
    sync_points_.missed();
}

// Whether those who are left, or who are in time, go on after this.
bool Trainer::recover(const JobFailed& failure) {
  const bool holds = stage_ == Stage::sync_point;
  hold_again_ = true;
  if (holds && source_->gives_up(failure)) {
    log_.put_back();
    return true;
  }
  const bool together = stage_ != Stage::steps || source_->traits().recovers_in_steps;
  if (!recovery_ || !together) return false;
  source_->call_others();
  if (!recovery_->regroup()) return false;
  end_lost_step();
  if (stage_ != Stage::beginning) stage_ = Stage::rejoining;
  return true;
}

// Where workers step on their own, a step is made before its exchange, whatever becomes of that.
void Trainer::end_lost_step() {
  const auto lost = std::exchange(under_way_, std::nullopt);
  if (!lost || makes_steps_alone()) return;
  const bool made = replica_.stats().steps > lost->made_before;
  source_->end_lost_step(made);
  if (!made) return;
  if (lost->outcome) log_.add(*lost->outcome);
  count_step({.step = run_.step() - 1});
}

// Those who are left are where each of them missed the lost one. They come to the furthest of their
// steps, and hold a sync point there.
void Trainer::rejoin() {
  log_.regroup();
  source_->regroup();
  while (source_->is_behind()) take_step();
}

// Seconds that this worker stood still since it was last asked.
double Trainer::new_wait() {
  const auto& spread = run_.context().spread;
  const double waited = source_->gathering_seconds() + replica_.stats().wait_seconds +
                        (spread ? spread->wait_seconds() : 0);
  return waited - std::exchange(waited_, waited);
}

}  // namespace asup::train
