#include "asup/train/step_loop.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/data/prefetch.h"
#include "asup/train/balance.h"
#include "asup/train/handicap.h"
#include "asup/train/stepper.h"
#include "asup/train/strategy.h"
#include "asup/train/tally.h"

namespace asup::train {
namespace {

constexpr std::int64_t kBalanceEvery = 10;  // steps

class StepLoop {
 public:
  StepLoop(Run& run, const std::function<bool()>& stop_asked);
  void train();

 private:
  void run_epoch();
  StepRecord run_step(const data::Batch& batch);
  const std::vector<std::int64_t>& parts() const { return setup_.choices.parts; }
  void measure(const data::Batch& batch, Clock::time_point since, double waited_before);
  void rebalance();
  void take_in(const StepRecord& record);
  void after_step();
  bool is_over() const;
  bool at_fence() const;
  bool tally_due() const;
  void settle();
  void collect();
  void flush_log();

  Run& run_;
  Setup& setup_;
  const std::function<bool()>& stop_asked_;
  Stepper stepper_;
  Handicap handicap_;
  const bool own_steps_;  // and models are exchanged
  Tally tally_;
  std::optional<Balance> balance_;
  bool stopping_ = false;
  double waited_ = 0;         // of the replica's wait_seconds, told so far
  std::uint64_t merges_ = 0;  // of the replica's, told so far
  StepFigures own_;           // since the last tally was started, as is the next
  StepRecord current_;
  StepRecord pending_;   // that the tally is of, without what it brings
  StepRecord interval_;  // since the last row of metrics
};

StepLoop::StepLoop(Run& run, const std::function<bool()>& stop_asked)
    : run_(run),
      setup_(run.setup()),
      stop_asked_(stop_asked),
      stepper_(*setup_.model, *setup_.optimizer, *setup_.replica, setup_.path,
               run.config().accumulate),
      handicap_(
          Handicap::from(net::process_environment(), run.control().rank(), run.config().seed)),
      own_steps_(strategy_of(run.config()).has_own_steps()),
      tally_(run.control()) {
  if (!run.config().balance) return;
  balance_.emplace(run.control(), run.config().batch, parts());
  setup_.choices.parts = balance_->parts();
}

void StepLoop::train() {
  while (!is_over()) run_epoch();
  settle();  // somebody may have asked to stop between two fences
  collect();
  flush_log();
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
    StepRecord record = run_step(*batch);
    // The first batch was not assembled ahead, and took longer.
    if (!std::exchange(is_first, false)) measure(*batch, start, waited);
    if (tally_due()) collect();  // the one before; it travelled beside this step
    record.parts = parts;
    record.step_seconds = seconds_since(start);
    record.seconds = run_.seconds();
    run_.totals().train_seconds += record.step_seconds;
    take_in(record);
    after_step();
  }
}

StepRecord StepLoop::run_step(const data::Batch& batch) {
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
  setup_.replica->step();
  own_.loss += loss;
  own_.samples += static_cast<double>(own);
  run_.set_step(step + 1);

  StepRecord record;
  record.step = run_.step();
  record.epoch = run_.epoch();
  record.lr = lr;
  record.samples = static_cast<std::int64_t>(samples);
  return record;
}

// What this rank's own work took, of a step that has begun then.
void StepLoop::measure(const data::Batch& batch, Clock::time_point since, double waited_before) {
  if (!balance_) return;
  const double waited = setup_.replica->stats().wait_seconds - waited_before;
  balance_->worked(batch.input.size(0), seconds_since(since) - waited);
}

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

void StepLoop::take_in(const StepRecord& record) {
  current_.samples == 0 ? void(current_ = record) : current_.add(record);
  if (!tally_due()) return;
  const double waited = setup_.replica->stats().wait_seconds;
  own_.wait_seconds = waited - std::exchange(waited_, waited);
  own_.stops = stop_asked_() ? 1 : 0;
  tally_.start(std::exchange(own_, {}));
  if (balance_ && run_.step() % kBalanceEvery == 0) balance_->start();
  pending_ = std::exchange(current_, {});
}

void StepLoop::after_step() {
  if (!at_fence()) return;
  settle();
  collect();
  if (run_.ends_epoch() || run_.step() == run_.last_step()) setup_.replica->check_equal();
  if (run_.due(run_.config().eval_every)) {
    flush_log();
    run_.test();
  }
  if (run_.due(run_.config().checkpoint_every)) run_.save();
}

// One model for all. It is no part of a step's time.
void StepLoop::settle() {
  const auto start = Clock::now();
  setup_.replica->settle();
  if (!own_steps_) return;
  run_.totals().train_seconds += seconds_since(start);
  run_.totals().comm_s += seconds_since(start);
  waited_ = setup_.replica->stats().wait_seconds;
}

// Takes in what all ranks say of the steps that the last tally is of.
void StepLoop::collect() {
  const auto figures = tally_.collect();
  if (!figures) return;
  rebalance();
  pending_.loss = figures->loss / figures->samples;
  pending_.comm_s = figures->wait_seconds / run_.control().size();
  stopping_ = stopping_ || figures->stops > 0;
  const ReplicaStats stats = setup_.replica->stats();
  pending_.merges = static_cast<std::int64_t>(stats.merges - std::exchange(merges_, stats.merges));
  pending_.consensus_distance = stats.consensus_distance;
  run_.totals().comm_s += pending_.comm_s;
  run_.totals().samples += pending_.samples;
  check(std::isfinite(pending_.loss),
        "the loss became {} in step {}: training has diverged. A lower learning rate (lr is {:g}) "
        "or a warm-up may help.",
        pending_.loss, pending_.step, pending_.lr);
  interval_.samples == 0 ? void(interval_ = pending_) : interval_.add(pending_);
  run_.tell(&Observer::stepped, pending_);
  if (pending_.step % run_.config().log_every == 0) flush_log();
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

TrainEnd train_in_step(Run& run, const std::function<bool()>& stop_asked) {
  StepLoop(run, stop_asked).train();
  const TrainEnd end = run.conclude();
  run.control().barrier().or_throw();
  return end;
}

}  // namespace asup::train
