#include "asup/train/step_loop.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/data/prefetch.h"
#include "asup/sync/own_steps.h"
#include "asup/train/balance.h"
#include "asup/train/handicap.h"
#include "asup/train/inputs.h"
#include "asup/train/roll_call.h"
#include "asup/train/step_books.h"
#include "asup/train/stepper.h"
#include "asup/train/strategy.h"

namespace asup::train {
namespace {

constexpr std::int64_t kBalanceEvery = 10;  // steps
constexpr std::int64_t kBalanceFirst = 4;   // steps of this call: speeds are told after each

class StepLoop {
 public:
  StepLoop(Run& run, Job& job, const std::function<bool()>& stop_asked);
  TrainEnd train();

 private:
  TrainEnd train_to_the_end();
  void rejoin();
  void catch_up(std::int64_t step);
  void run_epoch();
  void compute(const data::Batch& batch);
  const std::vector<std::int64_t>& parts() const { return setup_.choices.parts; }
  void measure(const data::Batch& batch, Clock::time_point since, double waited_before);
  void rebalance();
  bool is_over() const;
  bool at_fence() const;
  bool is_beginning() const;
  bool tally_due() const;
  void tell();
  void hold_fence();
  void settle();
  void collect();
  void take_in(StepBooks::Told told);
  void flush_log();

  Run& run_;
  Setup& setup_;
  const std::function<bool()>& stop_asked_;
  Stepper stepper_;
  Handicap handicap_;
  const std::int64_t began_;  // after so many steps
  const bool own_steps_;      // and models are exchanged
  StepBooks books_;
  std::optional<Balance> balance_;
  std::optional<RollCall> workers_;  // where those who are left go on without the lost
  bool stopping_ = false;
  double waited_ = 0;         // of the replica's wait_seconds, told so far
  ReplicaStats stats_;        // as of the steps that were told last
  std::uint64_t merges_ = 0;  // of the replica's, in rows so far
  StepRecord interval_;       // since the last row of metrics
  std::int64_t held_ = 0;     // the last fence, in steps
};

StepLoop::StepLoop(Run& run, Job& job, const std::function<bool()>& stop_asked)
    : run_(run),
      setup_(run.setup()),
      stop_asked_(stop_asked),
      stepper_(*setup_.model, *setup_.optimizer, *setup_.replica, setup_.path, run.config()),
      handicap_(Handicap::from(net::process_environment(), job.rank(), run.config().seed)),
      began_(run.step()),
      own_steps_(strategy_of(run.config()).has_own_steps()),
      books_(run.control()),
      held_(run.step()) {
  if (own_steps_) workers_.emplace(run, job.rank());
  if (!run.config().balance) return;
  balance_.emplace(run.control(), run.config().batch, parts());
  setup_.choices.parts = balance_->parts();
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
  settle();  // somebody may have asked to stop between two fences
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
  if (auto told = books_.regroup()) take_in(std::move(*told));
  std::array<std::int64_t, 2> most{run_.step(), -held_};
  run_.control().all_reduce(buffer_of(std::span(most)), ReduceOp::max).or_throw();
  catch_up(most[0]);
  TrainConfig left = run_.config();
  left.workers = run_.control().size();
  setup_.batches = make_batches(left, *setup_.train, run_.control().rank());
  settle();
  if (!books_.empty()) tell();
  if (at_fence() && -most[1] < run_.step()) hold_fence();
}

void StepLoop::catch_up(std::int64_t step) {
  const std::int64_t per_epoch = setup_.length.steps_per_epoch;
  while (run_.step() < step) {
    const auto start = Clock::now();
    const auto epoch = static_cast<std::uint64_t>(run_.step() / per_epoch);
    const auto place = static_cast<std::size_t>(run_.step() % per_epoch);
    compute(setup_.train->get(setup_.batches->indices(epoch, place), epoch));
    setup_.replica->own_steps()->step_alone();
    books_.took(seconds_since(start), run_.seconds(), {});
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
  const std::int64_t per_epoch = setup_.length.steps_per_epoch;
  const std::vector<std::int64_t> parts = this->parts();
  data::Prefetcher ahead(*setup_.train, *setup_.batches,
                         static_cast<std::uint64_t>(run_.step() / per_epoch),
                         static_cast<std::size_t>(run_.step() % per_epoch), kAhead, parts);
  bool is_first = true;
  while (!is_over() && parts == this->parts()) {
    const auto start = Clock::now();
    const double waited = setup_.replica->stats().wait_seconds;
    const auto batch = ahead.next();
    if (!batch) return;
    // The first batch was not assembled ahead: waiting for it tells nothing of those to come.
    const auto since = std::exchange(is_first, false) ? Clock::now() : start;
    compute(*batch);
    setup_.replica->step();
    measure(*batch, since, waited);
    if (tally_due()) collect();  // the one before; it travelled beside this step
    const double seconds = seconds_since(start);
    books_.took(seconds, run_.seconds(), parts);
    run_.totals().train_seconds += seconds;
    if (tally_due()) tell();
    if (balance_ && is_beginning()) collect();  // a step in bad parts is longer than waiting for it
    if (at_fence()) hold_fence();
  }
}

// All of a step but the replica's part of it. It counts as done: where a worker steps on its own,
// its step is done even if the exchange after it fails.
void StepLoop::compute(const data::Batch& batch) {
  const std::int64_t per_epoch = setup_.length.steps_per_epoch;
  const std::int64_t step = run_.step();
  const auto samples = setup_.batches->global_count(static_cast<std::uint64_t>(step / per_epoch),
                                                    static_cast<std::size_t>(step % per_epoch));
  const double lr = learning_rate(run_.config(), setup_.length, step);
  const auto own = static_cast<std::size_t>(batch.input.size(0));
  // Gradients are averaged over ranks, and the update wants the mean over samples; where ranks step
  // on their own, it is over their own samples, and models are weighted by those.
  const double weight = own_steps_ ? 1 / static_cast<double>(std::max<std::size_t>(1, own))
                                   : run_.control().size() / static_cast<double>(samples);
  handicap_.before_batch(own, static_cast<double>(step) / static_cast<double>(setup_.length.steps));
  const double loss = stepper_.gradients(batch, weight, lr);
  handicap_.after_batch(own);
  setup_.replica->describe_batch(own, loss);
  run_.set_step(step + 1);

  StepRecord record;
  record.step = run_.step();
  record.epoch = run_.epoch();
  record.lr = lr;
  record.samples = static_cast<std::int64_t>(samples);
  books_.note(record, loss, own);
}

// What this rank's own work took, of a step that has begun then.
void StepLoop::measure(const data::Batch& batch, Clock::time_point since, double waited_before) {
  if (!balance_) return;
  const double waited = setup_.replica->stats().wait_seconds - waited_before;
  balance_->worked(batch.input.size(0), seconds_since(since) - waited);
}

bool StepLoop::is_beginning() const { return run_.step() <= began_ + kBalanceFirst; }

// Where gradients are averaged, ranks wait for each other in every step, and a few figures more
// cost nothing. Where they step on their own, figures are summed now and then.
bool StepLoop::tally_due() const {
  constexpr std::int64_t kEvery = 10;  // steps: somebody may watch, or wait for the run to stop
  return !own_steps_ || run_.step() % std::min(kEvery, run_.config().log_every) == 0 ||
         run_.step() % run_.config().log_every == 0 || at_fence();
}

// Where all meet: see fences() of schedule.h.
bool StepLoop::at_fence() const {
  return run_.ends_epoch() || run_.step() == run_.last_step() ||
         run_.due(run_.config().eval_every) || run_.due(run_.config().checkpoint_every);
}

void StepLoop::tell() {
  stats_ = setup_.replica->stats();
  const double waited = stats_.wait_seconds;
  books_.tell(waited - std::exchange(waited_, waited), stop_asked_());
  const bool speeds_due = run_.step() % kBalanceEvery == 0 || is_beginning();
  if (balance_ && speeds_due && run_.step() < run_.last_step()) balance_->start();
}

// Who is past the barrier knows that all have held it; else, where somebody is lost in it, all hold
// it again.
void StepLoop::hold_fence() {
  settle();
  collect();
  if (run_.ends_epoch() || run_.step() == run_.last_step()) setup_.replica->check_equal();
  if (run_.due(run_.config().eval_every)) {
    flush_log();
    run_.test();
  }
  if (run_.due(run_.config().checkpoint_every)) run_.save();
  held_ = run_.step();
  if (workers_) run_.control().barrier().or_throw();
}

// One model for all. It is no part of a step's time.
void StepLoop::settle() {
  const auto start = Clock::now();
  setup_.replica->settle();
  stats_ = setup_.replica->stats();
  if (!own_steps_) return;
  run_.totals().train_seconds += seconds_since(start);
  run_.totals().comm_s += seconds_since(start);
  waited_ = stats_.wait_seconds;
}

// Takes in what all ranks say of the steps that the last tally is of.
void StepLoop::collect() {
  auto told = books_.collect();
  if (!told) return;
  rebalance();
  take_in(std::move(*told));
}

void StepLoop::take_in(StepBooks::Told told) {
  StepRecord& steps = told.steps;
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
  run_.tell(&Observer::stepped, steps);
  if (steps.step % run_.config().log_every == 0) flush_log();
}

void StepLoop::rebalance() {
  if (!balance_ || !balance_->collect()) return;
  setup_.choices.parts = balance_->parts();
  if (run_.is_first_rank())
    log().info("after step {}, batches are dealt out by {}", run_.step(), fmt::join(parts(), " "));
}

void StepLoop::flush_log() {
  if (interval_.samples == 0) return;
  run_.log(interval_);
  interval_ = {};
}

}  // namespace

TrainEnd train_in_step(Run& run, Job& job, const std::function<bool()>& stop_asked) {
  return StepLoop(run, job, stop_asked).train();
}

}  // namespace asup::train
