#include "asup/train/loop/step_loop.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/data/prefetch.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/train/loop/balance.h"
#include "asup/train/loop/roll_call.h"
#include "asup/train/loop/step_metrics.h"
#include "asup/train/loop/train_step.h"
#include "asup/train/state/inputs.h"
#include "asup/train/strategy.h"

namespace asup::train {
namespace {

constexpr std::int64_t kBalanceEvery = 10;  // steps
constexpr std::int64_t kBalanceFirst = 4;   // steps of this call: speeds are told after each

class StepLoop {
 public:
  StepLoop(RunState& run, Job& job, const std::function<bool()>& stop_asked);
  TrainEnd train();

 private:
  TrainEnd train_to_the_end();
  void rejoin();
  void catch_up(std::int64_t step);
  void run_epoch();
  void compute(const data::Batch& batch);
  const std::vector<std::int64_t>& parts() const { return context_.choices.parts; }
  void measure(const data::Batch& batch, Clock::time_point since, double waited_before);
  void rebalance();
  bool is_over() const;
  bool at_sync_point() const;
  bool is_beginning() const;
  bool tally_due() const;
  void tell();
  void hold_sync_point();
  void synchronize();
  void collect();
  void take_in(StepMetrics::Told told);
  void flush_log();

  RunState& run_;
  TrainingContext& context_;
  const std::function<bool()>& stop_asked_;
  TrainStep train_step_;
  const std::int64_t began_;  // after so many steps
  const bool own_steps_;      // and models are exchanged
  StepMetrics step_metrics_;
  std::optional<Balance> balance_;
  std::optional<RollCall> workers_;  // where those who are left go on without the lost
  bool stopping_ = false;
  double waited_ = 0;            // of the replica's wait_seconds, told so far
  ReplicaStats stats_;           // as of the steps that were told last
  std::uint64_t merges_ = 0;     // of the replica's, in rows so far
  report::StepRecord interval_;  // since the last row of metrics
  std::int64_t held_ = 0;        // the last sync point, in steps
};

StepLoop::StepLoop(RunState& run, Job& job, const std::function<bool()>& stop_asked)
    : run_(run),
      context_(run.context()),
      stop_asked_(stop_asked),
      train_step_(*context_.model, *context_.optimizer, *context_.replica, context_.path,
                  run.config(), run.hooks()),
      began_(run.step()),
      own_steps_(strategy_of(run.config()).has_own_steps()),
      step_metrics_(run.control()),
      held_(run.step()) {
  if (own_steps_) workers_.emplace(run, job.rank());
  if (!run.config().balance) return;
  balance_.emplace(run.control(), run.config().batch, parts());
  context_.choices.parts = balance_->parts();
}

TrainEnd StepLoop::train() {
  for (bool all_are_here = true;; all_are_here = false) try {
      if (!all_are_here) rejoin();
      return train_to_the_end();
    } catch (const JobFailed&) {
      if (!workers_ || !workers_->regroup()) throw;
    }
}

// Nobody leaves before all are done.
TrainEnd StepLoop::train_to_the_end() {
  while (!is_over()) run_epoch();
  if (run_.must_merge()) synchronize();
  collect();
  flush_log();
  const TrainEnd end = run_.conclude();
  run_.control().barrier().or_throw();
  return end;
}

// Those who are left have found together again, each in the step in which it missed the lost one.
// Who is behind takes the steps alone that others have taken; then all have one model, and deal out
// the steps to come among themselves. What the lost one had of the steps until here is lost.
void StepLoop::rejoin() {
  if (auto told = step_metrics_.regroup()) take_in(std::move(*told));
  std::array<std::int64_t, 2> most{run_.step(), -held_};
  run_.control().all_reduce(buffer_of(std::span(most)), ReduceOp::max).or_throw();
  catch_up(most[0]);
  TrainConfig left = run_.config();
  left.workers = run_.control().size();
  context_.batches = make_batches(left, *context_.train, run_.control().rank());
  synchronize();
  if (!step_metrics_.empty()) tell();
  if (at_sync_point() && -most[1] < run_.step()) hold_sync_point();
}

void StepLoop::catch_up(std::int64_t step) {
  const std::int64_t per_epoch = context_.length.steps_per_epoch;
  while (run_.step() < step) {
    const auto start = Clock::now();
    const auto epoch = static_cast<std::uint64_t>(run_.step() / per_epoch);
    const auto place = static_cast<std::size_t>(run_.step() % per_epoch);
    compute(context_.train->get(context_.batches->indices(epoch, place), epoch));
    context_.replica->local_updates()->step_alone();
    step_metrics_.took(seconds_since(start), run_.seconds(), {});
    run_.totals().train_seconds += seconds_since(start);
  }
}

bool StepLoop::is_over() const {
  return run_.step() >= run_.last_step() || stopping_ || run_.switches();
}

// An epoch, or what is left of it, as long as parts stay what they are: batches are assembled
// ahead.
void StepLoop::run_epoch() {
  constexpr std::size_t kAhead = 2;  // batches
  const std::int64_t per_epoch = context_.length.steps_per_epoch;
  const std::vector<std::int64_t> parts = this->parts();
  data::Prefetcher ahead(*context_.train, *context_.batches,
                         static_cast<std::uint64_t>(run_.step() / per_epoch),
                         static_cast<std::size_t>(run_.step() % per_epoch), kAhead, parts);
  bool is_first = true;
  while (!is_over() && parts == this->parts()) {
    const auto start = Clock::now();
    const double waited = context_.replica->stats().wait_seconds;
    const auto batch = ahead.next();
    if (!batch) return;
    // The first batch was not assembled ahead: waiting for it tells nothing of those to come.
    const auto since = std::exchange(is_first, false) ? Clock::now() : start;
    compute(*batch);
    context_.replica->step();
    measure(*batch, since, waited);
    if (tally_due()) collect();  // the one before; it travelled beside this step
    const double seconds = seconds_since(start);
    step_metrics_.took(seconds, run_.seconds(), parts);
    run_.totals().train_seconds += seconds;
    if (tally_due()) tell();
    if (balance_ && is_beginning()) collect();  // a step in bad parts is longer than waiting for it
    if (at_sync_point()) hold_sync_point();
  }
}

// All of a step but the replica's part of it. It counts as done: where a worker steps on its own,
// its step is done even if the exchange after it fails.
void StepLoop::compute(const data::Batch& batch) {
  const std::int64_t per_epoch = context_.length.steps_per_epoch;
  const std::int64_t step = run_.step();
  const auto samples = context_.batches->global_count(static_cast<std::uint64_t>(step / per_epoch),
                                                      static_cast<std::size_t>(step % per_epoch));
  const double lr = learning_rate(run_.config(), context_.length, step);
  const auto own = static_cast<std::size_t>(batch.input.size(0));
  // Gradients are averaged over ranks, and the update wants the mean over samples; where ranks step
  // on their own, it is over their own samples, and models are weighted by those.
  const double weight = own_steps_ ? 1 / static_cast<double>(std::max<std::size_t>(1, own))
                                   : run_.control().size() / static_cast<double>(samples);
  const double loss = train_step_.gradients(batch, weight, lr, run_.share_done(step));
  context_.replica->describe_batch(own, loss);
  run_.set_step(step + 1);

  report::StepRecord record;
  record.step = run_.step();
  record.epoch = run_.epoch();
  record.lr = lr;
  record.samples = static_cast<std::int64_t>(samples);
  step_metrics_.note(record, loss, own);
}

// What this rank's own work took, of a step that has begun then.
void StepLoop::measure(const data::Batch& batch, Clock::time_point since, double waited_before) {
  if (!balance_) return;
  const double waited = context_.replica->stats().wait_seconds - waited_before;
  balance_->worked(batch.input.size(0), seconds_since(since) - waited);
}

bool StepLoop::is_beginning() const { return run_.step() <= began_ + kBalanceFirst; }

// Where gradients are averaged, ranks wait for each other in every step, and a few figures more
// cost nothing. Where they step on their own, figures are summed now and then.
bool StepLoop::tally_due() const {
  constexpr std::int64_t kEvery = 10;  // steps: somebody may watch, or wait for the run to stop
  return !own_steps_ || run_.step() % std::min(kEvery, run_.config().log_every) == 0 ||
         run_.step() % run_.config().log_every == 0 || at_sync_point();
}

// Where all meet: see sync_points() of schedule.h.
bool StepLoop::at_sync_point() const {
  return run_.ends_epoch() || run_.step() == run_.last_step() ||
         run_.due(run_.config().eval_every) || run_.due(run_.config().checkpoint_every);
}

void StepLoop::tell() {
  stats_ = context_.replica->stats();
  const double waited = stats_.wait_seconds;
  step_metrics_.tell(waited - std::exchange(waited_, waited), stop_asked_());
  const bool speeds_due = run_.step() % kBalanceEvery == 0 || is_beginning();
  if (balance_ && speeds_due && run_.step() < run_.last_step()) balance_->start();
}

// Who is past the barrier knows that all have held it; else, where somebody is lost in it, all hold
// it again.
void StepLoop::hold_sync_point() {
  if (run_.must_merge()) synchronize();
  collect();
  if (run_.due(run_.config().eval_every)) flush_log();
  if (run_.must_merge()) synchronize();  // the loss that was logged may say so
  if ((run_.ends_epoch() || run_.step() == run_.last_step()) && !context_.replica->models_differ())
    context_.replica->check_equal();
  if (run_.due(run_.config().eval_every)) run_.test();
  if (run_.due(run_.config().checkpoint_every)) run_.save();
  held_ = run_.step();
  if (workers_) run_.control().barrier().or_throw();
}

// One model for all. It is no part of a step's time.
void StepLoop::synchronize() {
  const auto start = Clock::now();
  context_.replica->synchronize();
  stats_ = context_.replica->stats();
  if (!own_steps_) return;
  run_.totals().train_seconds += seconds_since(start);
  run_.totals().comm_s += seconds_since(start);
  waited_ = stats_.wait_seconds;
}

// Takes in what all ranks say of the steps that the last tally is of.
void StepLoop::collect() {
  auto told = step_metrics_.collect();
  if (!told) return;
  rebalance();
  take_in(std::move(*told));
}

void StepLoop::take_in(StepMetrics::Told told) {
  report::StepRecord& steps = told.steps;
  stopping_ = stopping_ || told.stop;
  steps.merges = static_cast<std::int64_t>(stats_.merges - std::exchange(merges_, stats_.merges));
  steps.consensus_distance = stats_.consensus_distance;
  run_.totals().comm_s += steps.comm_s;
  run_.totals().samples += steps.samples;
  check(std::isfinite(steps.loss),
        "the loss became {} in step {}: training has diverged. A lower learning rate (lr is {:g}) "
        "or a warm-up may help.",
        steps.loss, steps.step, steps.lr);
  interval_.samples == 0 ? void(interval_ = steps) : interval_.add(steps);
  run_.tell(&report::Observer::stepped, steps);
  if (steps.step % run_.config().log_every == 0) flush_log();
}

void StepLoop::rebalance() {
  if (!balance_ || !balance_->collect()) return;
  context_.choices.parts = balance_->parts();
  if (run_.is_first_rank())
    log().info("after step {}, batches are dealt out by {}", run_.step(), fmt::join(parts(), " "));
}

void StepLoop::flush_log() {
  if (interval_.samples == 0) return;
  run_.log(interval_);
  interval_ = {};
}

}  // namespace

TrainEnd train_in_step(RunState& run, Job& job, const std::function<bool()>& stop_asked) {
  return StepLoop(run, job, stop_asked).train();
}

}  // namespace asup::train
