#include "asup/train/step_loop.h"

#include <cmath>

#include "asup/base/error.h"
#include "asup/data/prefetch.h"
#include "asup/train/handicap.h"
#include "asup/train/stepper.h"
#include "asup/train/tally.h"

namespace asup::train {
namespace {

class StepLoop {
 public:
  StepLoop(Run& run, const std::function<bool()>& stop_asked);
  void train();

 private:
  void run_epoch();
  void run_step(const data::Batch& batch);
  void after_step();
  void collect();
  void flush_log();

  Run& run_;
  Setup& setup_;
  const std::function<bool()>& stop_asked_;
  Stepper stepper_;
  Handicap handicap_;
  Tally tally_;
  bool stopping_ = false;
  double waited_ = 0;    // of the replica's wait_seconds, told so far
  StepRecord pending_;   // the last step, without what the tally brings
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
      tally_(run.control()) {}

void StepLoop::train() {
  while (run_.step() < run_.last_step() && !stopping_) run_epoch();
  collect();
  flush_log();
}

void StepLoop::run_epoch() {
  const std::int64_t per_epoch = setup_.length.steps_per_epoch;
  data::Prefetcher ahead(*setup_.train, *setup_.batches,
                         static_cast<std::uint64_t>(run_.step() / per_epoch),
                         static_cast<std::size_t>(run_.step() % per_epoch));
  while (run_.step() < run_.last_step() && !stopping_) {
    const auto start = Clock::now();
    const auto batch = ahead.next();
    if (!batch) return;
    run_step(*batch);
    const double took = seconds_since(start);
    pending_.step_seconds = took;
    pending_.seconds = run_.seconds();
    run_.totals().train_seconds += took;
    after_step();
  }
}

void StepLoop::run_step(const data::Batch& batch) {
  const std::int64_t per_epoch = setup_.length.steps_per_epoch;
  const std::int64_t step = run_.step();
  const auto samples = setup_.batches->global_count(static_cast<std::uint64_t>(step / per_epoch),
                                                    static_cast<std::size_t>(step % per_epoch));
  const double lr = learning_rate(run_.config(), setup_.length, step);
  // The exchange takes the mean over ranks, the update wants the mean over samples.
  const double weight = static_cast<double>(run_.control().size()) / static_cast<double>(samples);
  const auto own = static_cast<std::size_t>(batch.input.size(0));
  handicap_.before_batch(own, static_cast<double>(step) / static_cast<double>(setup_.length.steps));
  const double loss = stepper_.gradients(batch, weight, lr);
  handicap_.after_batch(own);
  setup_.replica->step();
  collect();  // the step before; it travelled beside this one
  run_.set_step(step + 1);
  pending_ = {};
  pending_.step = run_.step();
  pending_.epoch = run_.epoch();
  pending_.lr = lr;
  pending_.samples = static_cast<std::int64_t>(samples);

  const double waited = setup_.replica->stats().wait_seconds;
  tally_.start({loss, static_cast<double>(batch.input.size(0)), waited - waited_,
                stop_asked_() ? 1.0 : 0.0});
  waited_ = waited;
}

void StepLoop::after_step() {
  if (run_.ends_epoch() || run_.step() == run_.last_step()) {
    collect();
    setup_.replica->check_equal();
  }
  if (run_.due(run_.config().eval_every)) {
    collect();
    flush_log();
    run_.test();
  }
  if (run_.due(run_.config().checkpoint_every)) {
    collect();
    run_.save();
  }
}

// Takes in what all ranks say of the step before.
void StepLoop::collect() {
  const auto figures = tally_.collect();
  if (!figures) return;
  pending_.loss = figures->loss / figures->samples;
  pending_.comm_s = figures->wait_seconds / run_.control().size();
  stopping_ = stopping_ || figures->stops > 0;
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
